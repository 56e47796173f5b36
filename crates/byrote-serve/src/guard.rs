//! Who may ask.
//!
//! A page of another site can make a browser send requests to this machine. Three checks keep it out:
//!
//! - `Host` must be the address that was printed. A name that an attacker's DNS suddenly resolves to this machine (*DNS rebinding*) is
//!   another name.
//! - `Origin` and `Sec-Fetch-Site`, where the browser sends them, must be those of this page.
//! - What changes something is a POST of JSON, which a form of another site cannot send.
//!
//! On an address that others reach, every request also needs the token of the printed address: in the query once, then in a cookie. The
//! page is answered at the address with the token, and drops it from there: a redirect would arrive without the cookie if the address
//! was clicked on another site. For the same reason the cookie is `Lax`: a link to the page carries it, and what is not the page is
//! refused to other sites anyway.

use byrote::{Error, Result};
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, ORIGIN};
use hyper::{Method, Uri};
use std::net::IpAddr;

/// The rules for requests.
#[derive(Debug)]
pub struct Guard {
    /// The names of the host, besides addresses in digits if others may reach it.
    names: Vec<String>,
    port: u16,
    token: Option<String>,
}

/// Why a request is not answered: a status and a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// A request that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The cookie that the answer sets: the token is right and in the address.
    pub cookie: Option<String>,
}

impl Guard {
    /// The rules for a server on this host, or on the local machine, and this port.
    pub fn new(host: Option<&str>, port: u16) -> Result<Self> {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        let mut token = None;
        if let Some(host) = host {
            names.push(if host.contains(':') { format!("[{host}]") } else { host.to_lowercase() });
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes)
                .map_err(|e| Error::setting("host", format!("cannot draw a token: {e}")))?;
            token = Some(bytes.iter().map(|b| format!("{b:02x}")).collect());
        }
        Ok(Self { names, port, token })
    }

    /// The address of the page, with the token if it needs one.
    pub fn address(&self, name: &str, port: u16) -> String {
        match &self.token {
            Some(token) => format!("http://{name}:{port}/?token={token}"),
            None => format!("http://{name}:{port}/"),
        }
    }

    /// The name of the cookie that holds the token. Cookies of one host are shared by all its ports.
    fn cookie_name(&self) -> String {
        format!("byrote-token-{}", self.port)
    }

    /// Checks a request.
    pub fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> std::result::Result<Allowed, Refusal> {
        let no = |status, why| Err(Refusal(status, why));
        if uri.authority().is_some() {
            return no(400, "this is not a proxy");
        }
        if headers.get_all(HOST).iter().count() != 1 {
            return no(400, "exactly one Host is needed");
        }
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(host) = header(HOST).filter(|host| self.is_own(host)) else {
            return no(421, "this host is not served here");
        };
        if headers.contains_key(ORIGIN) && header(ORIGIN) != Some(&format!("http://{host}")) {
            return no(403, "requests of other sites are refused");
        }
        let is_page = uri.path() == "/" && *method == Method::GET;
        match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
            None | Some(b"same-origin" | b"none") => {}
            // A link from elsewhere may open the page, but nothing else.
            Some(_) if is_page && headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate") => {}
            Some(_) => return no(403, "requests of other sites are refused"),
        }
        if *method != Method::GET && *method != Method::POST {
            return no(405, "only GET and POST are served");
        }
        let is_json =
            header(CONTENT_TYPE).is_some_and(|kind| kind.split(';').next() == Some("application/json"));
        if *method == Method::POST && !is_json {
            return no(415, "the body must be application/json");
        }
        let Some(token) = &self.token else { return Ok(Allowed { cookie: None }) };
        let own = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            cookies.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        if cookies.any(|(name, value)| name == own && is_same(value, token)) {
            return Ok(Allowed { cookie: None });
        }
        let given = crate::query::Query::parse(uri.query().unwrap_or_default());
        if is_page && given.get("token").is_some_and(|given| is_same(given, token)) {
            return Ok(Allowed { cookie: Some(format!("{own}={token}; Path=/; HttpOnly; SameSite=Lax")) });
        }
        no(401, "open the address that byrote serve printed: it holds the token")
    }

    /// Whether a `Host` is this server.
    fn is_own(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        let digits = name.trim_start_matches('[').trim_end_matches(']');
        // An address in digits cannot be rebound, so behind a token any of them will do.
        let is_address = self.token.is_some() && digits.parse::<IpAddr>().is_ok();
        port == Some(self.port) && (is_address || self.names.contains(&name.to_lowercase()))
    }
}

/// Compares without saying, by the time it takes, where two texts differ.
fn is_same(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && differences == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(guard: &Guard, method: &str, address: &str, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                hyper::header::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        match guard.check(&method, &address.parse().unwrap(), &map) {
            Ok(_) => 200,
            Err(Refusal(status, _)) => status,
        }
    }

    #[test]
    fn only_this_host_and_this_origin_are_answered() {
        let guard = Guard::new(None, 8000).unwrap();
        for (host, status) in [
            ("127.0.0.1:8000", 200),
            ("localhost:8000", 200),
            ("LOCALHOST:8000", 200),
            ("[::1]:8000", 200),
            ("evil.example:8000", 421),
            ("127.0.0.1.evil.example:8000", 421),
            ("127.0.0.1:8001", 421),
            ("127.0.0.1", 421),
            ("10.0.0.1:8000", 421),
            ("", 421),
        ] {
            assert_eq!(check(&guard, "GET", "/", &[("host", host)]), status, "{host}");
        }
        let host = ("host", "127.0.0.1:8000");
        assert_eq!(check(&guard, "GET", "/", &[]), 400);
        assert_eq!(check(&guard, "GET", "/", &[host, ("host", "evil.example")]), 400);
        assert_eq!(check(&guard, "GET", "http://evil.example/", &[host]), 400);
        for (origin, status) in [("http://127.0.0.1:8000", 200), ("http://evil.example", 403), ("null", 403)]
        {
            assert_eq!(check(&guard, "GET", "/api/corpus", &[host, ("origin", origin)]), status, "{origin}");
        }
    }

    #[test]
    fn other_sites_may_link_to_the_page_and_nothing_else() {
        let guard = Guard::new(None, 8000).unwrap();
        let asked = |path: &str, site: &'static str, mode: &'static str| {
            let headers = [("host", "127.0.0.1:8000"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            check(&guard, "GET", path, &headers)
        };
        assert_eq!(asked("/", "cross-site", "navigate"), 200);
        assert_eq!(asked("/", "cross-site", "no-cors"), 403);
        assert_eq!(asked("/api/corpus", "cross-site", "navigate"), 403);
        assert_eq!(asked("/api/corpus", "same-site", "cors"), 403);
        assert_eq!(asked("/api/corpus", "same-origin", "cors"), 200);
        let host = ("host", "127.0.0.1:8000");
        assert_eq!(check(&guard, "POST", "/api/x", &[host, ("content-type", "text/plain")]), 415);
        assert_eq!(check(&guard, "POST", "/api/x", &[host]), 415);
        assert_eq!(
            check(&guard, "POST", "/api/x", &[host, ("content-type", "application/json; charset=utf-8")]),
            200
        );
        assert_eq!(check(&guard, "DELETE", "/api/x", &[host]), 405);
    }

    #[test]
    fn beyond_this_machine_every_request_needs_the_token() {
        let guard = Guard::new(Some("0.0.0.0"), 8000).unwrap();
        let token = guard.token.clone().unwrap();
        assert_eq!(token.len(), 32);
        assert_ne!(Guard::new(Some("0.0.0.0"), 8000).unwrap().token, guard.token);
        let host = ("host", "192.168.1.5:8000");
        assert_eq!(check(&guard, "GET", "/", &[host]), 401);
        assert_eq!(check(&guard, "GET", "/?token=0", &[host]), 401);
        assert_eq!(check(&guard, "GET", &format!("/?token={token}"), &[host]), 200);
        assert_eq!(check(&guard, "GET", &format!("/api/corpus?token={token}"), &[host]), 401);
        let cookie = format!("a=b; byrote-token-8000={token}");
        assert_eq!(check(&guard, "GET", "/api/corpus", &[host, ("cookie", &cookie)]), 200);
        assert_eq!(
            check(&guard, "GET", "/api/corpus", &[host, ("cookie", &cookie[..cookie.len() - 1])]),
            401
        );
        assert_eq!(check(&guard, "GET", "/", &[("host", "evil.example:8000"), ("cookie", &cookie)]), 421);
        // Another server on this machine has a cookie of its own.
        let other = format!("byrote-token-8001={token}");
        assert_eq!(check(&guard, "GET", "/", &[host, ("cookie", &other)]), 401);
        // A link on another site: to the page with the token, or later with the cookie, and to nothing else.
        let linked = |path: &str, more: &[(&str, &str)]| {
            let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
            check(&guard, "GET", path, &[&link[..], more].concat())
        };
        assert_eq!(linked(&format!("/?token={token}"), &[]), 200);
        assert_eq!(linked("/", &[("cookie", &cookie)]), 200);
        assert_eq!(linked("/", &[]), 401);
        assert_eq!(linked("/api/corpus", &[("cookie", &cookie)]), 403);
    }
}
