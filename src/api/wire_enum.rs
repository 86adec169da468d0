//! String enumerations of the wire format that survive values of a newer version (api.md §12,
//! decode tolerance).

/// Declares an enumeration whose values are strings on the wire.
///
/// A value this version does not know decodes to `Other` and is written back as it was read, so one
/// object of a newer version never makes a whole list undecodable. The generated schema lists the
/// known values only, in the order declared.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
            /// A value of a newer version, as read; to be treated as the default, with a logged
            /// warning (api.md §12).
            Other(String),
        }

        impl $name {
            /// Every value this version knows, in schema order.
            pub const KNOWN: &'static [$name] = &[$( $name::$variant, )+];

            /// The value as written on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $text, )+
                    Self::Other(text) => text,
                }
            }

            /// Whether this version knows the value.
            #[must_use]
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$variant, )+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(Self::from(text.as_ref()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$( $text, )+] })
            }
        }
    };
}
pub(crate) use wire_enum;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::api::DeletionPolicy;

    #[test]
    fn an_unknown_value_decodes_and_is_written_back_as_read() {
        let read: DeletionPolicy = serde_json::from_str(r#""Archive""#).unwrap();
        assert_eq!(read, DeletionPolicy::Other("Archive".to_owned()));
        assert!(!read.is_known());
        assert_eq!(serde_json::to_string(&read).unwrap(), r#""Archive""#);
    }

    #[test]
    fn a_known_value_decodes_to_its_variant() {
        let read: DeletionPolicy = serde_json::from_str(r#""Retain""#).unwrap();
        assert_eq!(read, DeletionPolicy::Retain);
    }
}
