/* The search of this site runs in a worker, and a browser starts no worker for a page that was opened from disk (file://).
   There this file puts a worker into a frame that is not shown: the same script, the same messages, on the page's thread. */
if (location.protocol === "file:") {
  window.Worker = class FrameWorker extends EventTarget {
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
    postMessage(data) {
      this.ready.then(() => {
        const event = new MessageEvent("message", { data });
        const inside = this.frame.contentWindow;
        if (typeof inside.onmessage === "function") inside.onmessage(event);
        inside.dispatchEvent(event);
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
