//! Where the server listens, and where it writes.

use byrote::{Error, Result};
use clap::Args;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
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
        // An address that means every interface cannot be opened from elsewhere; one of an interface can.
        let name = match host.parse::<IpAddr>() {
            Ok(every) if every.is_unspecified() => reachable(every).to_string(),
            _ => host.to_owned(),
        };
        Ok((listener, if name.contains(':') { format!("[{name}]") } else { name }))
    }
}

/// The address of this machine by which others reach it, as far as its routes tell; that of the machine itself if it has no network.
fn reachable(every: IpAddr) -> IpAddr {
    // Connecting a datagram socket sends nothing: it only chooses the interface. These addresses are reserved for documentation.
    let through = |from: &str, to: &str| {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        socket
            .local_addr()
            .ok()
            .map(|a: SocketAddr| a.ip())
            .filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
    };
    let four = through("0.0.0.0", "192.0.2.1");
    let six = || through("::", "2001:db8::1");
    let found = if every.is_ipv4() { four } else { six().or(four) };
    found.unwrap_or(if every.is_ipv4() {
        [127, 0, 0, 1].into()
    } else {
        std::net::Ipv6Addr::LOCALHOST.into()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn the_printed_address_of_every_interface_can_be_opened() {
        let spec = ServeSpec { host: Some("0.0.0.0".into()), ..ServeSpec::default() };
        let (listener, name) = spec.listen().unwrap();
        assert_ne!(name, "0.0.0.0");
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((name.as_str(), port)).unwrap();
        // Where there is a network, it is not the address that only this machine can open.
        let has_network = UdpSocket::bind("0.0.0.0:0").unwrap().connect("192.0.2.1:9").is_ok();
        assert_eq!(has_network, name != "127.0.0.1", "{name}");
    }
}
