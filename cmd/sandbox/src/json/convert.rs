//! Conversions from and to other types, and comparisons with them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::{Serialize, Serializer};

use super::{List, Map, Number, Text, Value};

/// A type of which the macro `json` makes values.
pub(crate) trait ToJson {
    fn to_json(&self) -> Value;
}

macro_rules! to_json {
    ($($ty:ty => |$it:ident| $value:expr,)+) => {
        $(impl ToJson for $ty {
            fn to_json(&self) -> Value {
                let $it = self;
                $value
            }
        })+
    };
}

to_json! {
    Value => |it| it.clone(),
    Map => |it| Value::Object(it.clone()),
    List => |it| Value::Array(it.clone()),
    Text => |it| Value::String(it.clone()),
    str => |it| Value::String(it.into()),
    String => |it| Value::String(it.into()),
    Cow<'_, str> => |it| Value::String((&**it).into()),
    bool => |it| Value::Bool(*it),
    f64 => |it| Number::from_f64(*it).map_or(Value::Null, Value::Number),
}

macro_rules! from {
    ($($ty:ty => $variant:ident),+) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

from!(bool => Bool, Number => Number, String => String, Text => String, List => Array, Map => Object);

macro_rules! integers {
    ($($ty:ty),+) => {
        from!($($ty => Number),+);
        to_json!($($ty => |it| Value::Number((*it).into()),)+);
    };
}

integers!(u8, u16, i32, u32, i64, u64, usize);

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self) -> Value {
        (**self).to_json()
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }
}

impl<T: ToJson> ToJson for [T] {
    fn to_json(&self) -> Value {
        Value::Array(self.iter().map(T::to_json).collect())
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Value {
        self.as_slice().to_json()
    }
}

impl<T: ToJson, const N: usize> ToJson for [T; N] {
    fn to_json(&self) -> Value {
        self.as_slice().to_json()
    }
}

impl<K: AsRef<str>, T: ToJson> ToJson for BTreeMap<K, T> {
    fn to_json(&self) -> Value {
        let member = |(key, value): (&K, &T)| (super::map::key(key.as_ref()), value.to_json());
        Value::Object(self.iter().map(member).collect())
    }
}

impl<T: ToJson + ?Sized> From<&T> for Value {
    fn from(value: &T) -> Self {
        value.to_json()
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        value.to_json()
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value as Plain;
        match value {
            Plain::Null => Self::Null,
            Plain::Bool(value) => Self::Bool(value),
            Plain::Number(number) => Self::Number(number),
            Plain::String(text) => Self::String(text.into()),
            Plain::Array(items) => items.into_iter().collect(),
            Plain::Object(map) => {
                let member = |(key, value): (String, Plain)| (super::map::key(&key), Self::from(value));
                Self::Object(map.into_iter().map(member).collect())
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(key, value)| (key.as_str(), value)))
    }
}

macro_rules! equal {
    ($($ty:ty => |$it:ident| $content:expr, $as:ident;)+) => {
        $(impl PartialEq<$ty> for Value {
            fn eq(&self, $it: &$ty) -> bool {
                self.$as() == Some($content)
            }
        })+
    };
}

equal! {
    str => |it| it, as_str;
    &str => |it| *it, as_str;
    String => |it| it, as_str;
    bool => |it| *it, as_bool;
    i32 => |it| i64::from(*it), as_i64;
    i64 => |it| *it, as_i64;
}
