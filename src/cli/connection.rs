//! One blocking connection to a server: ask, wait, read the answer.
#![allow(clippy::disallowed_types)] // a command's own sockets

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::address::Address;
use super::client_error::ClientError;
use crate::wire::api_keys::{ApiKey, KAFKA_RANGES};
use crate::wire::error_code::ErrorCode;
use crate::wire::frame::{self, FRAME_PREFIX_BYTES, RequestHeader};
use crate::wire::messages::api_versions_request::ApiVersionsRequest;
use crate::wire::messages::api_versions_response::ApiVersionsResponse;
use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::EncodeError;

/// A connection that knows which versions its server speaks. One request at a time.
#[derive(Debug)]
pub struct Connection {
    address: Address,
    stream: TcpStream,
    limit: Duration,
    served: Vec<ServedVersions>,
    correlation_id: i32,
    request: Vec<u8>,
    response: Vec<u8>,
}

/// What a server announces about one API.
#[derive(Clone, Copy, Debug)]
struct ServedVersions {
    api_key: i16,
    min: i16,
    max: i16,
}

impl Connection {
    /// Connects and asks which versions the server speaks. `limit` holds for the connect and for each answer.
    pub fn connect(address: &Address, limit: Duration) -> Result<Self, ClientError> {
        let stream = connect_stream(address, limit)?;
        let mut connection = Self {
            address: address.clone(),
            stream,
            limit,
            served: Vec::new(),
            correlation_id: 0,
            request: Vec::new(),
            response: Vec::new(),
        };
        connection.negotiate()?;
        Ok(connection)
    }

    /// Who is at the other end.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The highest version that the server speaks and this crate has, `ours_max` at most.
    pub fn version(&self, api_key: ApiKey, ours_max: i16) -> Result<i16, ClientError> {
        let ours = KAFKA_RANGES.iter().find(|range| range.key == api_key);
        let ours_min = ours.map_or(0, |range| range.min);
        let ours_max = ours.map_or(0, |range| range.max).min(ours_max);
        let theirs = self.served.iter().find(|served| served.api_key == api_key.key());
        let (min, max) = theirs.map_or((-1, -1), |served| (served.min, served.max));
        let version = ours_max.min(max);
        if version < ours_min.max(min) {
            return Err(ClientError::Version {
                address: self.address.clone(),
                api: api_key.name(),
                min,
                max,
                ours_min,
                ours_max,
            });
        }
        Ok(version)
    }

    /// Sends one request and decodes its answer, which borrows from the connection.
    pub fn call<'c, T>(
        &'c mut self,
        api_key: ApiKey,
        version: i16,
        encode: impl FnOnce(&mut Vec<u8>, i16) -> Result<(), EncodeError>,
        decode: impl FnOnce(&mut Reader<'c>, i16) -> Result<T, DecodeError>,
    ) -> Result<T, ClientError> {
        let api = api_key.name();
        self.encode(api_key, version, encode)?;
        if let Err(error) = self.exchange() {
            // Eight ASCII bytes instead of a length are an HTTP or TLS server's.
            if error.kind() == io::ErrorKind::InvalidData {
                let address = self.address.clone();
                return Err(ClientError::NotKafka { address, api });
            }
            let seconds = self.limit.as_secs();
            return Err(ClientError::of_io(&self.address, api_key, seconds, error));
        }
        let mut reader = Reader::new(&self.response);
        let header = read_response_header(&mut reader, api_key, version);
        let answer = match header {
            Ok(id) if id == self.correlation_id => decode(&mut reader, version),
            Ok(_) => {
                let address = self.address.clone();
                return Err(ClientError::NotKafka { address, api });
            }
            Err(error) => Err(error),
        };
        answer.map_err(|source| ClientError::Decode { address: self.address.clone(), api, source })
    }

    /// Sends one request that has no answer (a produce with acks 0).
    pub fn send(
        &mut self,
        api_key: ApiKey,
        version: i16,
        encode: impl FnOnce(&mut Vec<u8>, i16) -> Result<(), EncodeError>,
    ) -> Result<(), ClientError> {
        self.encode(api_key, version, encode)?;
        let seconds = self.limit.as_secs();
        let sent = self.stream.write_all(&self.request);
        sent.map_err(|error| ClientError::of_io(&self.address, api_key, seconds, error))
    }

    /// The socket, for those who go on by themselves. No answer is outstanding.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn encode(
        &mut self,
        api_key: ApiKey,
        version: i16,
        encode: impl FnOnce(&mut Vec<u8>, i16) -> Result<(), EncodeError>,
    ) -> Result<(), ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.request.clear();
        let api = api_key.name();
        encode_request(&mut self.request, api_key, version, self.correlation_id, |out| encode(out, version))
            .map_err(|source| ClientError::Encode { api, source })
    }

    fn exchange(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.request)?;
        let mut prefix = [0; FRAME_PREFIX_BYTES];
        self.stream.read_exact(&mut prefix)?;
        let length =
            frame::frame_length(prefix, RESPONSE_BYTES_MAX).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.response.clear();
        // Grows with what arrives, so that a wrong length costs no memory.
        let read = Read::by_ref(&mut self.stream).take(length as u64).read_to_end(&mut self.response)?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn negotiate(&mut self) -> Result<(), ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: "alluvium",
            client_software_version: env!("CARGO_PKG_VERSION"),
            ..ApiVersionsRequest::default()
        };
        let api_key = ApiKey::ApiVersions;
        let ask = |connection: &mut Self, version: i16| {
            let response = connection.call(
                api_key,
                version,
                |out, version| match version {
                    0..=2 => ApiVersionsRequest::default().encode(out, version),
                    _ => request.encode(out, version),
                },
                // An error is answered in the oldest form, whatever was asked (KIP-511).
                |reader, version| {
                    let code = reader.clone().int16("error_code")?;
                    ApiVersionsResponse::decode(reader, if code == 0 { version } else { 0 })
                },
            )?;
            let served = response.api_keys.iter().map(|api| ServedVersions {
                api_key: api.api_key,
                min: api.min_version,
                max: api.max_version,
            });
            Ok::<_, ClientError>((response.error_code, served.collect::<Vec<_>>()))
        };
        let (mut code, mut served) = ask(self, API_VERSIONS_FIRST)?;
        if code == ErrorCode::UnsupportedVersion.code() {
            let known = served.iter().find(|api| api.api_key == api_key.key());
            let version = known.map_or(0, |api| api.max.clamp(0, API_VERSIONS_FIRST - 1));
            (code, served) = ask(self, version)?;
        }
        ClientError::check(api_key, code, None)?;
        self.served = served;
        Ok(())
    }
}

/// Appends a whole request frame.
pub fn encode_request(
    out: &mut Vec<u8>,
    api_key: ApiKey,
    api_version: i16,
    correlation_id: i32,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let open = frame::begin_request_frame(out);
    let header = RequestHeader { api_key, api_version, correlation_id, client_id: Some("alluvium"), body_start: 0 };
    header.encode(out)?;
    encode(out)?;
    open.end(out)
}

/// Reads the header of a response; returns the correlation id.
pub fn read_response_header(reader: &mut Reader<'_>, api_key: ApiKey, version: i16) -> Result<i32, DecodeError> {
    let correlation_id = reader.int32("correlation_id")?;
    if api_key.response_header_version(version) >= 1 {
        reader.skip_tagged_fields()?;
    }
    Ok(correlation_id)
}

fn connect_stream(address: &Address, limit: Duration) -> Result<TcpStream, ClientError> {
    let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for socket_address in address.resolve().map_err(unreachable)? {
        match TcpStream::connect_timeout(&socket_address, limit) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(unreachable)?;
                stream.set_read_timeout(Some(limit)).map_err(unreachable)?;
                stream.set_write_timeout(Some(limit)).map_err(unreachable)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    if last.kind() == io::ErrorKind::ConnectionRefused {
        let address = address.clone();
        return Err(ClientError::Refused { address });
    }
    Err(unreachable(last))
}

/// Version 3 names the client in the server's log; a server that lacks it says so and is asked again.
const API_VERSIONS_FIRST: i16 = 3;
/// Far above any answer to an administrator's question.
const RESPONSE_BYTES_MAX: u32 = 256 << 20;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that gives fixed answers, one for each request, then closes.
    #[allow(clippy::disallowed_methods)]
    fn answering(answers: Vec<Vec<u8>>) -> (Address, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            for answer in answers {
                let mut prefix = [0; 4];
                stream.read_exact(&mut prefix).expect("a request");
                let mut request = vec![0; i32::from_be_bytes(prefix) as usize];
                stream.read_exact(&mut request).expect("the rest");
                stream.write_all(&answer).expect("to answer");
            }
        });
        (Address::new("127.0.0.1", port), thread)
    }

    fn versions_answer(correlation_id: i32, version: i16, code: i16, max: i16) -> Vec<u8> {
        use crate::wire::messages::api_versions_response::ApiVersion;
        let response = ApiVersionsResponse {
            error_code: code,
            api_keys: vec![ApiVersion { api_key: ApiKey::ApiVersions.key(), min_version: 0, max_version: max }],
            ..ApiVersionsResponse::default()
        };
        let mut out = Vec::new();
        let open = frame::begin_frame(&mut out, correlation_id, 0);
        response.encode(&mut out, version).expect("short");
        open.end(&mut out).expect("short");
        out
    }

    #[test]
    fn an_older_server_is_asked_again() {
        let (address, thread) = answering(vec![
            versions_answer(1, 0, ErrorCode::UnsupportedVersion.code(), 1),
            versions_answer(2, 1, 0, 1),
        ]);
        let connection = Connection::connect(&address, Duration::from_secs(10)).expect("connect");
        assert_eq!(connection.version(ApiKey::ApiVersions, 5).expect("has"), 1);
        let lacks = connection.version(ApiKey::Metadata, 13).expect_err("lacks");
        assert!(matches!(lacks, ClientError::Version { max: -1, .. }));
        thread.join().expect("server");
    }

    #[test]
    fn other_servers_are_told_apart() {
        let cases = [
            (b"HTTP/1.1 400".to_vec(), "right port"),
            (versions_answer(77, 0, 0, 1), "right port"),
            (Vec::new(), "closed the connection"),
        ];
        for (answer, hint) in cases {
            let (address, thread) = answering(vec![answer]);
            let error = Connection::connect(&address, Duration::from_secs(10)).expect_err(hint);
            assert!(error.to_string().contains(hint), "{error}");
            thread.join().expect("server");
        }
    }

    #[test]
    fn nobody_at_the_port_says_how_to_start() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let address = Address::new("127.0.0.1", port);
        let error = Connection::connect(&address, Duration::from_secs(10)).expect_err("nobody");
        assert!(error.to_string().contains("alluvium serve"), "{error}");
    }
}
