// SPDX-License-Identifier: GPL-2.0-or-later
// Perfetto's own trace processor, as the Perfetto UI has it: node trace_processor.js DIRECTORY.
// Standard input takes a stream of TraceProcessorRpcStream (perfetto/trace_processor/trace_processor.proto), standard
// output has the stream of answers. DIRECTORY has engine_bundle.js, a web worker: it gets a worker's surroundings here.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const directory = process.argv[2];

class XMLHttpRequest { // the worker reads its WebAssembly with one
    open(_method, url) { this.name = path.basename(url); }
    send() {
        const bytes = fs.readFileSync(path.join(directory, this.name));
        this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
        this.status = 200;
    }
}

const worker = {
    XMLHttpRequest, URL, TextDecoder, TextEncoder, performance, setTimeout, clearTimeout,
    crypto: require("crypto").webcrypto,
    WorkerGlobalScope: class {},
    console: { log() {}, warn() {}, error() {} },
    location: { href: "file:///engine_bundle.js" },
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"), worker);

// an array must be of the worker's own kind, whose realm is another one
const own = vm.runInContext("(bytes) => Uint8Array.from(bytes)", worker);
const port = { postMessage(bytes) { fs.writeSync(1, bytes); } };
worker.onmessage({ data: port });
process.stdin.on("data", (bytes) => port.onmessage({ data: own(bytes) }));
