//! A compiled node of a structural schema.

use std::collections::BTreeMap;

use regex::Regex;

use crate::apiextensions::structural::format::Format;
use crate::apiextensions::structural::pattern;
use crate::cel::Rule;
use crate::json::Value;

/// A node of the schema. Inside `allOf`, `anyOf`, `oneOf` and `not`, only value validations are set.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of the schema")]
pub struct Node {
    /// The type, if the schema specifies one.
    pub ty: Option<Type>,
    pub int_or_string: bool,
    pub nullable: bool,
    pub preserve: bool,
    pub embedded: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Node>,
    pub additional: Option<Additional>,
    pub items: Option<Box<Node>>,
    pub list: List,
    pub limits: Limits,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub rules: Vec<Rule>,
    /// Whether the node or a descendant has rules.
    pub has_rules: bool,
}

/// The types of `OpenAPI`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Debug)]
pub enum Additional {
    /// `false`: no additional properties.
    None,
    /// `true`: any value.
    Any,
    /// Values of a schema.
    Of(Box<Node>),
}

#[derive(Debug, Default, PartialEq)]
pub enum List {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are unique.
    Set,
    /// The values of these keys are unique.
    Map(Vec<String>),
}

#[derive(Debug, Default)]
pub struct Limits {
    pub format: Option<Format>,
    pub pattern: Option<Regex>,
    /// The source of the pattern, for messages.
    pub pattern_text: String,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub allowed: Vec<Value>,
}

impl Type {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::Object, "object"),
        (Self::Array, "array"),
        (Self::String, "string"),
        (Self::Integer, "integer"),
        (Self::Number, "number"),
        (Self::Boolean, "boolean"),
    ];

    pub fn parse(text: &str) -> Option<Self> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(ty, _)| ty)
    }

    pub fn name(self) -> &'static str {
        let found = Self::NAMES.into_iter().find(|(ty, _)| *ty == self);
        found.map_or("", |(_, name)| name)
    }
}

impl Node {
    /// Compiles a schema that [`crate::apiextensions::structural::check`] has accepted; invalid parts are ignored.
    pub fn compile(schema: &Value) -> Self {
        let flag = |key: &str| schema[key] == true;
        let nested = |key: &str| -> Vec<Node> {
            let schemas = schema[key].as_array().into_iter().flatten();
            schemas.map(Self::compile).collect()
        };
        let properties: BTreeMap<String, Node> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.to_string(), Self::compile(schema)))
            .collect();
        let additional = match &schema["additionalProperties"] {
            Value::Bool(true) => Some(Additional::Any),
            Value::Bool(false) => Some(Additional::None),
            below @ Value::Object(_) => Some(Additional::Of(Box::new(Self::compile(below)))),
            _ => None,
        };
        let below = |key: &str| {
            schema[key]
                .is_object()
                .then(|| Box::new(Self::compile(&schema[key])))
        };
        let mut node = Self {
            ty: schema["type"].as_str().and_then(Type::parse),
            int_or_string: flag("x-kubernetes-int-or-string"),
            nullable: flag("nullable"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            default: (!schema["default"].is_null()).then(|| schema["default"].clone()),
            properties,
            additional,
            items: below("items"),
            list: List::compile(schema),
            limits: Limits::compile(schema),
            all_of: nested("allOf"),
            any_of: nested("anyOf"),
            one_of: nested("oneOf"),
            not: below("not"),
            rules: Vec::new(),
            has_rules: false,
        };
        let rules = schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten();
        node.rules = rules.filter_map(|rule| Rule::compile(rule, &node)).collect();
        node.has_rules = !node.rules.is_empty()
            || node.items.as_ref().is_some_and(|n| n.has_rules)
            || node.values().is_some_and(|n| n.has_rules)
            || node.properties.values().any(|n| n.has_rules);
        node
    }

    /// Returns the schema of a map's values.
    pub fn values(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Of(node)) => Some(node),
            _ => None,
        }
    }

    /// Returns the schema of a field or of a map entry.
    pub fn below(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or_else(|| self.values())
    }
}

impl List {
    fn compile(schema: &Value) -> Self {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Self::Set,
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten();
                Self::Map(keys.filter_map(|key| key.as_str().map(str::to_owned)).collect())
            }
            _ => Self::Atomic,
        }
    }
}

impl Limits {
    fn compile(schema: &Value) -> Self {
        let pattern_text = schema["pattern"].as_str().unwrap_or_default().to_owned();
        let texts = |key: &str| -> Vec<String> {
            let items = schema[key].as_array().into_iter().flatten();
            items
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        Self {
            format: Format::compile(schema),
            // Most schemas have no pattern, and compiling an empty one takes time.
            pattern: (!pattern_text.is_empty())
                .then(|| pattern::compile(&pattern_text).ok())
                .flatten(),
            pattern_text,
            maximum: schema["maximum"].as_f64(),
            exclusive_maximum: schema["exclusiveMaximum"] == true,
            minimum: schema["minimum"].as_f64(),
            exclusive_minimum: schema["exclusiveMinimum"] == true,
            multiple_of: schema["multipleOf"].as_f64(),
            max_length: schema["maxLength"].as_i64(),
            min_length: schema["minLength"].as_i64(),
            max_items: schema["maxItems"].as_i64(),
            min_items: schema["minItems"].as_i64(),
            max_properties: schema["maxProperties"].as_i64(),
            min_properties: schema["minProperties"].as_i64(),
            required: texts("required"),
            allowed: schema["enum"].as_array().unwrap_or_default().to_vec(),
        }
    }
}
