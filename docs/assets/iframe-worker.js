/* Two things about the search of this site, which runs in a worker.

   Questions: the search looks for words that begin with what was typed, so that "how do I freeze layers" would find all
   that begins with "i". Words that only make a sentence of a question are left out.

   Pages from disk: a browser starts no worker for a page that was opened from disk (file://). There a worker becomes a
   frame that is not shown: the same script, the same messages, on the page's thread. */
(() => {
  const ASIDE = new Set(
    ("a an and are can could did do does for from how i if in is it its me must my of on or should that the there this to " +
      "was what when which will with would you your").split(" "));

  /* A message to the worker, a query without such words if others remain. */
  function plain(message) {
    if (typeof message?.data !== "string") return message;
    const words = message.data.split(/\s+/);
    const kept = words.filter((word) => !ASIDE.has(word.toLowerCase().replace(/[?!.,]+$/, "")));
    return kept.join("") ? { ...message, data: kept.join(" ") } : message;
  }

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      // What a worker has and a window has not, or has with another meaning.
      inside.postMessage = (data) => this.deliver(data);
      inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)));
      this.ready = this.load(url);
    }
    load(url) {
      const frame = this.frame.contentDocument;
      return new Promise((resolve, reject) => {
        const script = frame.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
        frame.body.appendChild(script);
      });
    }
    deliver(data) {
      const event = new MessageEvent("message", { data });
      if (typeof this.onmessage === "function") this.onmessage(event);
      this.dispatchEvent(event);
    }
    postMessage(message) {
      this.ready.then(() => {
        const event = new MessageEvent("message", { data: plain(message) });
        const inside = this.frame.contentWindow;
        if (typeof inside.onmessage === "function") inside.onmessage(event);
        inside.dispatchEvent(event);
      });
    }
    terminate() {
      this.frame.remove();
    }
  }

  if (location.protocol === "file:") {
    window.Worker = FrameWorker;
  } else {
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (message, ...more) {
      return post.call(this, plain(message), ...more);
    };
  }
})();
