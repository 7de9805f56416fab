//! Literals.

/// Returns a [`Value`](crate::json::Value) of a JSON literal with expressions in it.
macro_rules! json {
    (null) => { $crate::json::Value::Null };
    ([]) => { $crate::json::Value::Array($crate::json::List::new()) };
    ([ $($items:tt)+ ]) => {{
        let mut list = $crate::json::List::new();
        $crate::json::json!(@list list $($items)+);
        $crate::json::Value::Array(list)
    }};
    ({ $($members:tt)* }) => {{
        #[allow(unused_mut)]
        let mut map = $crate::json::Map::new();
        $crate::json::json!(@map map $($members)*);
        $crate::json::Value::Object(map)
    }};
    ($value:expr) => { $crate::json::ToJson::to_json(&$value) };

    (@list $list:ident) => {};
    (@list $list:ident null $(, $($rest:tt)*)?) => { $crate::json::json!(@item $list (null) $($($rest)*)?) };
    (@list $list:ident [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json::json!(@item $list ([ $($value)* ]) $($($rest)*)?)
    };
    (@list $list:ident { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json::json!(@item $list ({ $($value)* }) $($($rest)*)?)
    };
    (@list $list:ident $value:expr $(, $($rest:tt)*)?) => { $crate::json::json!(@item $list ($value) $($($rest)*)?) };
    (@item $list:ident ($($value:tt)*) $($rest:tt)*) => {
        $list.push($crate::json::json!($($value)*));
        $crate::json::json!(@list $list $($rest)*);
    };

    (@map $map:ident) => {};
    (@map $map:ident $key:tt : null $(, $($rest:tt)*)?) => {
        $crate::json::json!(@member $map $key (null) $($($rest)*)?)
    };
    (@map $map:ident $key:tt : [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json::json!(@member $map $key ([ $($value)* ]) $($($rest)*)?)
    };
    (@map $map:ident $key:tt : { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json::json!(@member $map $key ({ $($value)* }) $($($rest)*)?)
    };
    (@map $map:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $crate::json::json!(@member $map $key ($value) $($($rest)*)?)
    };
    (@member $map:ident $key:tt ($($value:tt)*) $($rest:tt)*) => {
        $map.insert($key, $crate::json::json!($($value)*));
        $crate::json::json!(@map $map $($rest)*);
    };
}
pub(crate) use json;
