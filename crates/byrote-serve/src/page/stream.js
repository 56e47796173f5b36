// The stream of what the server says by itself, opened again whenever it is lost.

const NAMES = ["corpus", "resync", "run", "runs", "task"];
// When a stream that a browser has given up is opened again, in milliseconds.
const AGAIN = 1000;
const REFUSED = 5000;

/**
 * Calls `hear(name, data)` with every event and its JSON as text, until the returned function is called. The name is "connected" when the
 * server answers, "lost" when it does not, and "refused" when it wants another token.
 */
export function stream(hear) {
  let source = null;
  let timer = null;
  let isOver = false;
  function open() {
    source = new EventSource("/api/events");
    source.addEventListener("hello", () => hear("connected"));
    for (const name of NAMES) source.addEventListener(name, (event) => hear(name, event.data));
    source.addEventListener("error", async () => {
      if (source.readyState !== EventSource.CLOSED) {
        hear("lost");
        return;
      }
      // A browser gives up on an answer that is not a stream, and does not say which answer that was.
      const { status } = await fetch("/api/corpus").catch(() => ({}));
      if (isOver) return;
      hear(status === 401 ? "refused" : "lost");
      timer = setTimeout(open, status === 401 ? REFUSED : AGAIN);
    });
  }
  open();
  return () => {
    isOver = true;
    clearTimeout(timer);
    source.close();
  };
}
