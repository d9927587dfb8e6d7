//! Helpers that build HTTP responses.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;

/// The body of a response.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn wrong_method(allowed: &'static str) -> Response<Body> {
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed} here"));
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refused
}

pub(crate) fn text(status: StatusCode, text: &str) -> Response<Body> {
    respond(status, TEXT, format!("{text}\n").into())
}

pub(crate) fn respond(status: StatusCode, kind: &'static str, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(content).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
