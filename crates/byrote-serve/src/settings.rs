//! Where the server listens, and where it writes.

use byrote::{Error, Result};
use clap::Args;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::PathBuf;

/// The settings of the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct ServeSpec {
    /// Listen on this port [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Listen on this address instead of the local machine only; the page then needs the token in the printed address
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// Keep the trainings that are started from the page in this directory [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub runs: Option<PathBuf>,
}

impl ServeSpec {
    /// Listens; returns the name of the host in the address of the page.
    pub(crate) fn listen(&self) -> Result<(TcpListener, String)> {
        let host = self.host.as_deref().unwrap_or("127.0.0.1");
        let port = self.port.unwrap_or(0);
        let addresses = (host, port).to_socket_addrs().map_err(|e| {
            Error::setting("host", format!("{host:?} is not an address of this machine: {e}"))
        })?;
        let addresses: Vec<_> = addresses.collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(|e| match e.kind() {
            std::io::ErrorKind::AddrInUse => Error::setting(
                "port",
                format!("{port} is used by another program; leave it out to take a free one"),
            ),
            std::io::ErrorKind::PermissionDenied => {
                Error::setting("port", format!("{port} needs special rights; choose one from 1024 on"))
            }
            _ => Error::setting("host", format!("cannot listen on {host}: {e}")),
        })?;
        let fail = |e| Error::io("socket", "listen on", e);
        listener.set_nonblocking(true).map_err(fail)?;
        // An address that means every interface cannot be opened; this machine can.
        let name = match host {
            "0.0.0.0" | "::" => "127.0.0.1".to_owned(),
            other if other.contains(':') => format!("[{other}]"),
            other => other.to_owned(),
        };
        Ok((listener, name))
    }
}
