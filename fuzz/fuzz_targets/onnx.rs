#![no_main]
byrote_fuzz::target!(onnx);
