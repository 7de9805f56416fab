//! Validation of the match conditions of a webhook.

use crate::apiextensions::structural::check_condition;
use crate::field::{FieldError, Report as _, Wrong};
use crate::json::Value;
use crate::registry::json::{list, text};
use crate::schema::Path;

const LIMIT: usize = 64;

/// Validates the number of match conditions.
pub(super) fn validate_number(conditions: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let count = list(conditions).len();
    if count > LIMIT {
        let path = path.key("matchConditions");
        errors.report(&path, Wrong::TooMany(count, LIMIT), "");
    }
}

/// Validates the expression of a match condition.
pub(crate) fn validate(condition: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (given, path) = (text(&condition["expression"]), path.key("expression"));
    let expression = given.trim();
    if expression.is_empty() && !given.is_empty() {
        errors.required(&path, "");
    } else if !expression.is_empty()
        && let Err(why) = check_condition(expression)
    {
        errors.invalid(&path, expression, why);
    }
}
