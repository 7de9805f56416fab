//! Declarative defaulting and validation: the rules of single fields, by type. Mirrors upstream's `+default` and
//! `+k8s:` tags.
//!
//! `rules.txt` lists types, and below each type its fields with their rules. `generated/types.txt` adds required fields
//! and defaults; a line of `rules.txt` replaces the requirement. Rules that relate several fields are functions, in
//! [`hooks`].
//!
//! | rule | meaning |
//! |---|---|
//! | `=JSON` | the default of an absent field |
//! | `required`, `optional` | whether the field must be set |
//! | `1..65535`, `0..` | the range of a number |
//! | `A\|B\|c-*` | the supported values |
//! | `unique:name` | items of a list have different names |
//! | another word | a format of [`check`] |
//!
//! A rule with the suffix `!` also applies to an absent field. Rules of scalars apply to each item of a list.

mod check;
mod hooks;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::field::{FieldError, Report as _};
use crate::generated;
use crate::json::{self, Lookup, Map, Value};
use crate::resource::Resource;
use crate::schema::{self, Path, TypeRef};
use check::Check;
use hooks::{Default, Validate};

pub(crate) use check::{ip, percent_of, validate_labels};

static TYPES: LazyLock<Types> = LazyLock::new(compile);

/// The rules of all types, in the order of [`schema::types`].
struct Types {
    types: Vec<Type>,
}

struct Type {
    /// The fields with rules, and those whose types have rules, sorted by name.
    fields: Vec<Field>,
    by_name: Lookup<usize>,
    /// The fields with rules that apply to an absent field.
    rules_of_absent: Vec<usize>,
    default: Option<Default>,
    validate: Option<Validate>,
}

struct Field {
    name: &'static str,
    shape: Shape,
    default: Option<Value>,
    /// The server writes the object even if it is not set. Creation and updates set the status.
    shown_object: bool,
    /// The field or a field of its type has a default.
    has_defaults: bool,
    /// A pointer, whose zero value differs from an absent field.
    pointer: bool,
    required: Required,
    checks: Vec<(Check, AppliesTo)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Required {
    No,
    /// The API requires the field, and `rules.txt` does not mention it. The server validates no such field of a status.
    ByType,
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AppliesTo {
    SetFields,
    AllFields,
}

/// The place of an object type in the type of a field.
enum Shape {
    Scalar,
    Object(usize),
    List(Box<Shape>),
}

impl Field {
    fn is_unset(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty() && !self.pointer,
            Value::Number(number) => number.as_i64() == Some(0) && !self.pointer,
            Value::Bool(_) | Value::Object(_) => false,
        }
    }
}

/// Sets the defaults of an object. The parts that it shares with `base` have them.
pub(super) fn default(res: &Resource, object: &mut Value, base: Option<&Value>) {
    if let Some(kind) = res.schema.map(TypeRef::index) {
        TYPES.default(kind, object, base);
    }
}

/// Validates an object without its metadata and status.
pub(super) fn validate(res: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    if let Some(kind) = res.schema.map(TypeRef::index) {
        let of_status = false;
        TYPES.validate(kind, object, &Path::Root, &mut Walk { errors, of_status });
    }
}

/// Validates the status of an object.
pub(super) fn validate_status(res: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let kind = res.schema.and_then(|kind| TYPES.types.get(kind.index()));
    let status = kind.and_then(|kind| kind.fields.iter().find(|field| field.name == "status"));
    if let Some(status) = status {
        let (path, of_status) = (Path::Root.key("status"), true);
        TYPES.validate_field(
            &status.shape,
            &object["status"],
            &path,
            &mut Walk { errors, of_status },
        );
    }
}

struct Walk<'a> {
    errors: &'a mut Vec<FieldError>,
    of_status: bool,
}

impl Types {
    fn default(&self, ty: usize, value: &mut Value, base: Option<&Value>) {
        let Some(ty) = self.types.get(ty) else { return };
        let Value::Object(map) = value else { return };
        for field in ty.fields.iter().filter(|field| field.has_defaults) {
            let present = map.get(field.name).filter(|value| !field.is_unset(value));
            if let Some(present) = present {
                let base = base.and_then(|base| base.get(field.name));
                let is_scalar = matches!(field.shape, Shape::Scalar);
                if !is_scalar
                    && !base.is_some_and(|base| base.is_shared_with(present))
                    && let Some(value) = map.get_mut(field.name)
                {
                    self.default_field(&field.shape, value, base);
                }
            } else if let Some(default) = &field.default {
                map.insert(json::key(field.name), default.clone());
            } else if field.shown_object {
                let mut object = Map::new().into();
                self.default_field(&field.shape, &mut object, None);
                map.insert(json::key(field.name), object);
            }
        }
        if let Some(default) = ty.default {
            default(value);
        }
    }

    fn default_field(&self, shape: &Shape, value: &mut Value, base: Option<&Value>) {
        match (shape, value) {
            (Shape::Object(ty), value) => self.default(*ty, value, base),
            (Shape::List(shape), Value::Array(items)) => {
                for item in items.make_mut() {
                    self.default_field(shape, item, None);
                }
            }
            _ => {}
        }
    }

    fn validate(&self, ty: usize, object: &Value, path: &Path<'_>, walk: &mut Walk<'_>) {
        let Some(ty) = self.types.get(ty) else { return };
        let mut run = |at: usize, value: &Value| {
            let Some(field) = ty.fields.get(at) else { return };
            if !(matches!(path, Path::Root) && field.name == "status") {
                self.validate_member(field, value, &path.key(field.name), walk);
            }
        };
        // Fields and members are both sorted by name, and errors have the order of the fields.
        let mut absent = ty.rules_of_absent.iter().copied().peekable();
        for (name, value) in object.as_object().into_iter().flatten() {
            if let Some(&at) = ty.by_name.get(name.as_str()) {
                while let Some(before) = absent.next_if(|absent| *absent < at) {
                    run(before, &Value::Null);
                }
                absent.next_if_eq(&at);
                run(at, value);
            }
        }
        absent.for_each(|at| run(at, &Value::Null));
        if let Some(validate) = ty.validate {
            validate(object, path, walk.errors);
        }
    }

    fn validate_member(&self, field: &Field, value: &Value, path: &Path<'_>, walk: &mut Walk<'_>) {
        let unset = field.is_unset(value);
        let required_by_type = field.required == Required::ByType && !walk.of_status;
        let scalar = matches!(field.shape, Shape::Scalar);
        if unset && (field.required == Required::Always || (required_by_type && scalar)) {
            walk.errors.required(path, "");
        }
        for (check, applies) in &field.checks {
            if !unset || *applies == AppliesTo::AllFields {
                check.run(value, path, walk.errors);
            }
        }
        if !value.is_null() || required_by_type {
            self.validate_field(&field.shape, value, path, walk);
        }
    }

    fn validate_field(&self, shape: &Shape, value: &Value, path: &Path<'_>, walk: &mut Walk<'_>) {
        match (shape, value) {
            (Shape::Object(ty), value) => self.validate(*ty, value, path, walk),
            (Shape::List(shape), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.validate_field(shape, item, &path.index(index), walk);
                }
            }
            _ => {}
        }
    }
}

/// Joins the types with their rules, and keeps the fields that have rules or contain fields with rules.
fn compile() -> Types {
    let rules = parse_rules(include_str!("rules.txt"));
    // The strategy of CRDs has rules of its own, and metadata has the same rules everywhere.
    let skipped = |name: &str| name.starts_with("apiextensions.") || name == "meta.v1.ObjectMeta";
    let by_name: BTreeMap<_, _> = schema::types().map(|ty| (ty.short_name(), ty.index())).collect();
    let mut types: Vec<Type> = by_name
        .keys()
        .map(|name| {
            let data = generated::types().get(name).filter(|_| !skipped(name));
            let fields = data.map_or(&[] as &[_], |data| &data.fields);
            let fields = fields.iter().map(|field| {
                let rules = rules.get(&(*name, field.name)).map(Vec::as_slice);
                compile_field(field, rules, &by_name)
            });
            Type {
                fields: fields.collect(),
                by_name: Lookup::default(),
                rules_of_absent: Vec::new(),
                default: hooks::default_of(name),
                validate: hooks::validate_of(name),
            }
        })
        .collect();
    let has_rules = containing(
        &types,
        |ty| ty.default.is_some() || ty.validate.is_some(),
        Field::has_rules,
    );
    let has_defaults = containing(&types, |ty| ty.default.is_some(), Field::has_own_default);
    for ty in &mut types {
        ty.fields
            .retain(|field| field.has_rules() || field.shape.is_in(&has_rules));
        for field in &mut ty.fields {
            field.has_defaults = field.has_own_default() || field.shape.is_in(&has_defaults);
        }
        let fields = ty.fields.iter().enumerate();
        ty.by_name = fields.clone().map(|(at, field)| (field.name, at)).collect();
        let of_absent = fields.filter(|(_, field)| field.has_rules_of_absent());
        ty.rules_of_absent = of_absent.map(|(at, _)| at).collect();
    }
    Types { types }
}

/// Returns by type whether the type, one of its fields or a type below has a property.
fn containing(types: &[Type], of_type: fn(&Type) -> bool, of_field: fn(&Field) -> bool) -> Vec<bool> {
    let mut found = vec![false; types.len()];
    loop {
        let field = |field: &Field| of_field(field) || field.shape.is_in(&found);
        let next = types.iter().map(|ty| of_type(ty) || ty.fields.iter().any(field));
        let next: Vec<bool> = next.collect();
        if next == found {
            return found;
        }
        found = next;
    }
}

impl Shape {
    /// Reports whether the object type in it is one of those that are `true` in the list.
    fn is_in(&self, types: &[bool]) -> bool {
        match self {
            Self::Scalar => false,
            Self::Object(ty) => types.get(*ty) == Some(&true),
            Self::List(inner) => inner.is_in(types),
        }
    }
}

impl Field {
    fn has_own_default(&self) -> bool {
        self.default.is_some() || self.shown_object
    }

    fn has_rules_of_absent(&self) -> bool {
        let of_all = |(_, applies): &(Check, AppliesTo)| *applies == AppliesTo::AllFields;
        self.required != Required::No || self.checks.iter().any(of_all)
    }

    fn has_rules(&self) -> bool {
        self.has_own_default() || self.required != Required::No || !self.checks.is_empty()
    }
}

type Rules = BTreeMap<(&'static str, &'static str), Vec<&'static str>>;

fn parse_rules(text: &'static str) -> Rules {
    let mut rules = Rules::new();
    let mut types = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            types = words.collect();
            continue;
        }
        let field = words.next().unwrap_or_default();
        for ty in &types {
            rules.entry((*ty, field)).or_default().extend(words.clone());
        }
    }
    rules
}

fn compile_field(
    data: &'static generated::Field,
    rules: Option<&[&'static str]>,
    by_name: &BTreeMap<&'static str, usize>,
) -> Field {
    let shape = shape_of(data.ty, by_name);
    // The server reads an absent number as zero.
    let has_form = matches!(data.ty, "string" | "bytes") || !matches!(shape, Shape::Scalar);
    let by_type = data.required && rules.is_none() && has_form;
    let mut field = Field {
        name: data.name,
        has_defaults: false,
        shown_object: data.shown && data.name != "status" && matches!(shape, Shape::Object(_)),
        pointer: data.keeps_zero && !data.shown,
        default: data.default.and_then(|json| serde_json::from_str(json).ok()),
        required: if by_type { Required::ByType } else { Required::No },
        shape,
        checks: Vec::new(),
    };
    for rule in rules.into_iter().flatten() {
        if let Some(json) = rule.strip_prefix('=') {
            field.default = serde_json::from_str(json).ok();
            continue;
        }
        match *rule {
            "required" => field.required = Required::Always,
            "optional" => {}
            rule => {
                let (word, applies) = match rule.strip_suffix('!') {
                    Some(word) => (word, AppliesTo::AllFields),
                    None => (rule, AppliesTo::SetFields),
                };
                field.checks.push((Check::parse(word), applies));
            }
        }
    }
    field
}

fn shape_of(ty: &'static str, by_name: &BTreeMap<&'static str, usize>) -> Shape {
    if let Some(item) = ty.strip_prefix("[]") {
        return match shape_of(item, by_name) {
            Shape::Scalar => Shape::Scalar,
            shape => Shape::List(Box::new(shape)),
        };
    }
    by_name
        .get(ty)
        .map_or(Shape::Scalar, |index| Shape::Object(*index))
}
