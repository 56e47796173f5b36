//! Tests of the library as its users see it.
#![allow(clippy::unwrap_used)]
#![allow(clippy::too_many_lines, reason = "a test reads better as one list of cases")]

mod allocation;
mod arrow_files;
mod audit;
mod audit_page;
mod browser;
mod depth;
mod gguf;
mod gguf_writer;
mod golden;
mod huggingface;
mod inference;
mod layers;
mod onnx;
mod onnx_blocks;
mod pages;
mod plans;
mod readers;
mod reference;
mod seeds;
mod settings;
mod stored;
