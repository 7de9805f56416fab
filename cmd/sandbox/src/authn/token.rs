//! Bearer tokens: the `Authorization` header, and the signed tokens of service accounts.
//!
//! The token of a service account is a JWT signed with a key of this process (ES256): it cannot be forged, and is invalid
//! after the process ends. The caller checks that the account exists and that the token has not expired.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

use crate::json::json;

/// The issuer of tokens, and their default audience.
pub const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Audiences.
    pub aud: Vec<String>,
    /// Until when it is good, in seconds since 1970.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// Issuer.
    pub iss: String,
    /// Its own id.
    pub jti: String,
    /// The service account and the bound object, by uid.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Subject,
    /// From when it is good.
    pub nbf: i64,
    /// The user's name.
    pub sub: String,
}

/// The account of a token, and the object that it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Ref>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Ref>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Ref>,
    pub serviceaccount: Ref,
}

/// One object of a certain uid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ref {
    /// Name.
    pub name: String,
    /// Uid; empty for a node that does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Why a token is not accepted, in the API's words. The token itself is not among them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// None of ours.
    #[error("invalid bearer token")]
    Unknown,
    /// One of ours, but.
    #[error("[invalid bearer token, {0}]")]
    Refused(String),
}

impl TokenError {
    /// One of ours, but.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}

/// The key that tokens are signed with.
pub struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    /// A fresh key; `None` if the machine has no randomness to give.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).ok()?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).ok()?;
        Some(Self { key, random })
    }

    /// The token that says this.
    #[must_use]
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.key.public_key().as_ref()));
        let header = json!({"alg": "ES256", "kid": kid}).to_string();
        let body = serde_json::to_vec(claims).ok()?;
        let text = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(body)
        );
        let signature = self.key.sign(&self.random, text.as_bytes()).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns the claims of a token that this process has signed.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        let (text, signature) = token.rsplit_once('.').ok_or(TokenError::Unknown)?;
        let (_, body) = text.split_once('.').ok_or(TokenError::Unknown)?;
        let claims: Option<Claims> = URL_SAFE_NO_PAD
            .decode(body)
            .ok()
            .and_then(|body| serde_json::from_slice(&body).ok());
        let claims = claims
            .filter(|claims| claims.iss == AUDIENCE)
            .ok_or(TokenError::Unknown)?;
        let forged = || TokenError::refused("go-jose/go-jose: error in cryptographic primitive");
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| forged())?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref())
            .verify(text.as_bytes(), &signature)
            .map_err(|_| forged())?;
        Ok(claims)
    }
}

/// The bearer token of a request; none if it shows something else, or nothing.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let shown = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = shown.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Whether two tokens are the same, compared without regard to where they differ, so that time tells nothing.
#[must_use]
pub fn same(one: &str, other: &str) -> bool {
    let difference = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && difference == 0
}
