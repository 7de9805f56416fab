//! The fault classes, and their positions in a run.

use std::fmt;
use std::str::FromStr;

/// The positions at which a class of faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The requests of the processes, in the order of sending.
    Request,
    /// The watch events to the processes, in the order of delivery.
    Event,
    /// The messages that the network delivers: a process can be interrupted at each await.
    Step,
}

/// Declares the classes with their targets.
macro_rules! classes {
    ($($class:ident $target:ident $text:literal)*) => {
        /// A class of faults, by its name in the documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Class {
            $(#[doc = $text] $class),*
        }

        impl Class {
            /// All classes.
            pub const ALL: &[Self] = &[$(Self::$class),*];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$class => stringify!($class)),*
                }
            }

            /// Returns the positions of the class.
            #[must_use]
            pub const fn target(self) -> Target {
                match self {
                    $(Self::$class => Target::$target),*
                }
            }

            /// Returns the description.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$class => $text),*
                }
            }
        }
    };
}

classes! {
    F01 Request "The process crashes before it sends the request."
    F02 Request "The process crashes after the execution, before the response."
    F03 Request "The process crashes with the response, before it acts on it."
    F04 Request "The request is executed, and the response is lost."
    F05 Request "The request is lost."
    F06 Request "The request is executed twice."
    F07 Request "409: the object has changed."
    F08 Request "409: the object exists."
    F09 Request "404."
    F10 Request "422."
    F11 Request "429 with Retry-After."
    F12 Request "500 or 503 for up to a minute."
    F13 Request "No response arrives."
    F14 Request "The response arrives slowly."
    F15 Event "The watch ends, breaks, or delivers nothing more."
    F16 Event "The watch fails with 410."
    F17 Event "The watch delivers only bookmarks for ten minutes."
    F18 Event "The watch fails with an ERROR event."
    F19 Event "The watch cache of the API server is stale, for other processes after a restart too."
    F20 Event "The events of one resource are late by up to a minute."
    F21 Event "The watch ends and its history is lost, so that the process lists again."
    F22 Event "The event is delivered twice."
    F23 Event "The watch ends, and the objects change before the process lists again."
    F24 Step "The clock of a process jumps or has another rate, or the process pauses."
    F25 Step "The Lease is deleted or overwritten."
    F26 Step "Discovery, or one resource, fails for up to a minute."
    F28 Step "A bit of a label, a selector, a uid, an owner reference or a finalizer flips."
    F29 Step "Admission rejects creates for up to a minute."
    F30 Step "Pods fail at once, or are not removed by their nodes, for up to a minute."
    F31 Step "A leader is cut off and continues after another process leads."
    Crash Step "A process crashes at an await."
    Late Request "The connection breaks, and the request is executed later."
}

/// A fault at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The class.
    pub class: Class,
    /// The position, from 0.
    pub at: usize,
    /// Chooses among the variants of the class, and their times.
    pub variant: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.class.name(), self.at, self.variant)
    }
}

/// The error of a fault that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFault(String);

impl fmt::Display for InvalidFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a fault: use CLASS@POSITION:VARIANT, such as F04@17:0",
            self.0
        )
    }
}

impl std::error::Error for InvalidFault {}

impl FromStr for Fault {
    type Err = InvalidFault;

    fn from_str(text: &str) -> Result<Self, InvalidFault> {
        let parsed = || {
            let (class, rest) = text.split_once('@')?;
            let (at, variant) = rest.split_once(':')?;
            Some(Self {
                class: *Class::ALL.iter().find(|it| it.name() == class)?,
                at: at.parse().ok()?,
                variant: variant.parse().ok()?,
            })
        };
        parsed().ok_or_else(|| InvalidFault(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_read_as_it_is_printed() {
        for class in Class::ALL {
            let fault = Fault {
                class: *class,
                at: 17,
                variant: 3,
            };
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert!("F99@1:2".parse::<Fault>().is_err());
        assert!("F04".parse::<Fault>().is_err());
    }
}
