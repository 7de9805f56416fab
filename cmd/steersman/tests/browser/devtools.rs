//! A headless Chromium, driven by the `DevTools` protocol over a pipe: JSON messages that end with a zero byte.
//!
//! One page in one browser. Requests are answered one at a time; events that arrive meanwhile are kept.

use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine as _;
use serde_json::{Value, json};
use steersman_harness::time;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The names of the program in the order of preference.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--remote-debugging-pipe",
    // The processes of CI run as root, in a container.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--ignore-certificate-errors",
];

/// A page in a browser that ends when this is dropped.
pub struct Page {
    _browser: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Console messages, exceptions and violations of the Content-Security-Policy.
    console: Vec<String>,
    /// Answers intercepted requests.
    intercept: Option<Intercept>,
    _profile: TempDir,
}

/// Returns the answer to an intercepted request with this Authorization header: a status and a body, or none to send it.
pub type Intercept = fn(Option<&str>) -> Option<(u16, String)>;

/// Returns the installed browser.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = PROGRAMS
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
    found.find(|file| file.is_file())
}

impl Page {
    /// Starts a browser with an empty page.
    pub async fn start(program: PathBuf) -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        // The browser reads messages from file descriptor 3 and writes to 4.
        let mut browser = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a shell");
        let mut page = Self {
            input: browser.stdin.take().expect("a pipe"),
            output: BufReader::new(browser.stdout.take().expect("a pipe")),
            _browser: browser,
            session: None,
            last_id: 0,
            console: Vec::new(),
            intercept: None,
            _profile: profile,
        };
        let target = page
            .call("Target.createTarget", json!({"url": "about:blank"}))
            .await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = page.call("Target.attachToTarget", attach).await;
        page.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page
    }

    /// Opens an address.
    pub async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url})).await;
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")
            .await;
    }

    /// Sets the size of the window and the color scheme.
    pub async fn resize(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", scheme).await;
    }

    /// Answers requests of `path` by `intercept`.
    pub async fn intercept(&mut self, path: &str, intercept: Intercept) {
        self.intercept = Some(intercept);
        let patterns = json!({"patterns": [{"urlPattern": format!("*{path}")}]});
        self.call("Fetch.enable", patterns).await;
    }

    /// Sends all requests again.
    pub async fn end_intercept(&mut self) {
        self.intercept = None;
        self.call("Fetch.disable", json!({})).await;
    }

    /// Evaluates an expression, and awaits it if it is a promise.
    pub async fn evaluate(&mut self, expression: &str) -> Value {
        let evaluate = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", evaluate).await;
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, condition: &str) {
        let holds = time::eventually(time::ANSWER, async || {
            (self.evaluate(&format!("Boolean({condition})")).await == true).then_some(())
        })
        .await;
        if holds.is_none() {
            let shown = self.evaluate("document.body.innerText").await;
            panic!(
                "{condition} does not become true on:\n{shown}\nconsole: {:?}",
                self.console
            );
        }
    }

    /// Clicks on the middle of the element that an expression returns.
    pub async fn click(&mut self, element: &str) {
        let middle = format!(
            "(element => {{ element.scrollIntoView({{block: 'center'}}); const box = element.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})({element})"
        );
        let at = self.evaluate(&middle).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Types a text into the element with this id, and presses Enter.
    pub async fn submit(&mut self, id: &str, text: &str) {
        self.evaluate(&format!(
            "(it => {{ it.value = ''; it.focus(); }})(document.getElementById('{id}'))"
        ))
        .await;
        self.call("Input.insertText", json!({"text": text})).await;
        for kind in ["keyDown", "keyUp"] {
            let enter = json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
            self.call("Input.dispatchKeyEvent", enter).await;
        }
    }

    /// Returns an image of the page in the PNG format, from its top to `height`.
    pub async fn screenshot(&mut self, width: u32, height: u32) -> Vec<u8> {
        // Until the page is painted.
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))",
        )
        .await;
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let image = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
        let image = self.call("Page.captureScreenshot", image).await;
        let data = image["data"].as_str().expect("an image");
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .expect("base64")
    }

    /// Returns what the console shows, and clears it.
    pub fn take_console(&mut self) -> Vec<String> {
        std::mem::take(&mut self.console)
    }

    /// Calls a method and returns its result.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let result = time::within(time::ANSWER, async {
            loop {
                let mut message = self.receive().await;
                if message["id"] == id {
                    assert!(message["error"].is_null(), "{method}: {message}");
                    return message["result"].take();
                }
                self.on_event(&message).await;
            }
        });
        result
            .await
            .unwrap_or_else(|| panic!("the browser does not answer {method}"))
    }

    async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method});
        message["params"] = params;
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let message = format!("{message}\0");
        self.input
            .write_all(message.as_bytes())
            .await
            .expect("a running browser");
        self.last_id
    }

    async fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.output
            .read_until(0, &mut message)
            .await
            .expect("a running browser");
        assert!(!message.is_empty(), "the browser has ended");
        serde_json::from_slice(&message[..message.len() - 1]).expect("JSON")
    }

    async fn on_event(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.consoleAPICalled") => self.console.push(params["args"].to_string()),
            Some("Runtime.exceptionThrown") => self.console.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") => {
                let entry = &params["entry"];
                self.console
                    .push(format!("{}: {}", entry["level"], entry["text"]));
            }
            Some("Fetch.requestPaused") => {
                let (id, headers) = (&params["requestId"], &params["request"]["headers"]);
                let answer = self
                    .intercept
                    .and_then(|it| it(headers["Authorization"].as_str()));
                let (method, answer) = match answer {
                    None => ("Fetch.continueRequest", json!({"requestId": id})),
                    Some((status, body)) => {
                        let body = base64::engine::general_purpose::STANDARD.encode(body);
                        let answer = json!({"requestId": id, "responseCode": status, "body": body});
                        ("Fetch.fulfillRequest", answer)
                    }
                };
                self.send(method, answer).await;
            }
            _ => {}
        }
    }
}
