//! Rules: not evaluated yet.
use super::node::Node;
use crate::field::FieldError;
use serde_json::Value;
#[derive(Debug)]
pub struct Rule;
impl Rule {
    pub fn compile(_: &Value, _: &Node) -> Option<Self> {
        None
    }
}
pub fn validate(_: &Node, _: &Value, _: Option<&Value>) -> Vec<FieldError> {
    Vec::new()
}
pub fn validate_at(_: &Node, _: &Value, _: &super::path::Path<'_>) -> Vec<FieldError> {
    Vec::new()
}
