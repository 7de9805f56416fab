//! `/debug/flags/v`, the verbosity at run time, and `/debug/controllers/`, the index of the controllers' pages.

use http::StatusCode;

use super::connection::HttpResponse;
use super::endpoints::{Endpoints, text};

const CONTROLLERS: &str = "/debug/controllers/";

impl Endpoints {
    /// Adds `/debug/flags/v`. GET shows the verbosity, PUT sets it to the body: `set` returns the text of the response, or
    /// the reason why the value is invalid.
    #[must_use]
    pub fn with_verbosity(
        self,
        get: impl Fn() -> String + Send + Sync + 'static,
        set: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        let index = |_| std::future::ready(text(StatusCode::OK, "/debug/flags/v\n"));
        self.mount("/debug/flags", index)
            .mount("/debug/flags/", index)
            .mount("/debug/flags/v", move |_| {
                std::future::ready(text(StatusCode::OK, format!("{}\n", get())))
            })
            .mount_put("/debug/flags/v", move |request| {
                std::future::ready(set_verbosity(&set, request.body()))
            })
    }

    /// Adds `/debug/controllers/`, which lists the pages below it that were mounted before. Other paths below it return 404
    /// with the same list.
    #[must_use]
    pub fn with_controller_index(self) -> Self {
        let mut pages: Vec<&str> = self
            .paths()
            .filter(|path| path.starts_with(CONTROLLERS))
            .collect();
        pages.push("");
        let pages = pages.join("\n");
        let index = move |request: http::Request<bytes::Bytes>| {
            let known = request.uri().path().trim_end_matches('/') == CONTROLLERS.trim_end_matches('/');
            std::future::ready(if known {
                text(StatusCode::OK, pages.clone())
            } else {
                let body = format!("404 page not found; the pages of controllers are:\n{pages}");
                text(StatusCode::NOT_FOUND, body)
            })
        };
        self.mount(CONTROLLERS.trim_end_matches('/'), index.clone())
            .mount(CONTROLLERS, index)
    }
}

fn set_verbosity(set: impl Fn(&str) -> Result<String, String>, body: &[u8]) -> HttpResponse {
    let Ok(value) = std::str::from_utf8(body) else {
        return text(StatusCode::BAD_REQUEST, "the verbosity must be a number\n");
    };
    match set(value.trim()) {
        Ok(answer) => text(StatusCode::OK, format!("{answer}\n")),
        Err(reason) => text(StatusCode::BAD_REQUEST, format!("{reason}\n")),
    }
}
