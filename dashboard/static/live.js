// The stream of events. It is closed while nobody sees the page: a browser has few connections to one server, and
// weft reads only what somebody looks at.

const again = 5000; // milliseconds

export function follow(views, receive) {
  const sign = document.getElementById("live");
  const text = document.getElementById("live-text");
  const url = new URL("/api/events", location.origin);
  url.searchParams.set("views", views);
  let source = null;
  let timer = 0;

  function say(state, words) {
    sign.classList.toggle("on", state === "on");
    sign.classList.toggle("off", state === "off");
    text.textContent = words;
  }

  function open() {
    clearTimeout(timer);
    if (source || document.hidden) return;
    source = new EventSource(url);
    source.onmessage = (e) => {
      const frame = JSON.parse(e.data);
      receive(frame);
      say("on", "live, " + frame.at + " UTC");
    };
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) { say("off", "connecting"); return; }
      close();
      say("off", "no news: trying again");
      timer = setTimeout(open, again);
    };
  }

  function close() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { open(); return; }
    close();
    say("", "paused");
  });
  addEventListener("pagehide", close);
  open();
}
