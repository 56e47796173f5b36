// One stream for all tabs of a browser, which opens only a few connections to a server. Runs as a shared worker.

import { stream } from "./stream.js";

const ports = new Set();
let close = null;
let state = null;

function hear(name, data) {
  if (data === undefined) state = name;
  for (const port of ports) port.postMessage([name, data]);
}

addEventListener("connect", ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data === "join") ports.add(port);
    else ports.delete(port);
    if (ports.size === 0) {
      close?.();
      close = state = null;
    } else if (close === null) {
      close = stream(hear);
    } else if (data === "join" && state !== null) {
      port.postMessage([state]);
    }
  };
});
