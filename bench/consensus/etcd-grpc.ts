/**
 * Minimal gRPC client for etcd puts on a plain socket: many calls on one connection, as the client of etcd sends them.
 * It avoids measuring the HTTP/2 cost of Node as that of etcd. A call succeeds if its trailers have `grpc-status: 0`.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const frameHeadBytes = 9;
const kinds = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goAway: 7, windowUpdate: 8 } as const;
const flags = { endStream: 1, ack: 1, endHeaders: 4 } as const;
const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const path = '/etcdserverpb.KV/Put';
const initialWindowBytes = 65_535;
const windowBytesMax = 2 ** 31 - 1;

/** Without a header table in the server its trailers are always literal: the name in Huffman code, and the value 0. */
const statusOk = Buffer.from('889acac8b21234da8f0130', 'hex');

type Done = (error: Error | undefined) => void;

export class EtcdGrpcConnection {
  readonly #socket: Socket;
  readonly #open = new Map<number, Done>();
  #nextStream = 1;
  /** After the first call the server has these headers in its table, and they are sent as indices. */
  #headers: Buffer;
  #out = Buffer.allocUnsafe(64 * 1_024);
  #used = 0;
  #isFlushing = false;
  #rest: Buffer = Buffer.alloc(0);
  /** Flow control: what the server still accepts, and what this client has not acknowledged. */
  #sendWindowBytes = initialWindowBytes;
  #unacknowledgedBytes = 0;

  private constructor(socket: Socket, authority: string) {
    this.#socket = socket;
    this.#headers = firstHeaders(authority);
    socket.on('data', (chunk: Buffer) => this.#onChunk(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => this.#onClose());
  }

  static async open(host: string, port: number): Promise<EtcdGrpcConnection> {
    const socket = connect({ host, port, noDelay: true });
    await once(socket, 'connect');
    const connection = new EtcdGrpcConnection(socket, `${host}:${port}`);
    connection.#sendPreface();
    return connection;
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  put(key: Uint8Array, value: Uint8Array, done: Done): void {
    if (!this.isOpen) return done(new Error('the connection to etcd is closed'));
    const stream = this.#nextStream;
    this.#nextStream += 2;
    this.#open.set(stream, done);
    this.#frame(kinds.headers, flags.endHeaders, stream, this.#headers);
    if (stream === 1) this.#headers = laterHeaders;
    const body = putRequest(key, value);
    this.#sendWindowBytes -= body.length;
    if (this.#sendWindowBytes < 0)
      throw new Error('the flow control window of etcd is too small for so many calls on one connection');
    this.#frame(kinds.data, flags.endStream, stream, body);
  }

  close(): void {
    this.#socket.destroy();
  }

  #sendPreface(): void {
    this.#append(Buffer.from(preface, 'latin1'));
    // SETTINGS_HEADER_TABLE_SIZE = 0.
    this.#frame(kinds.settings, 0, 0, Buffer.from([0, 1, 0, 0, 0, 0]));
    this.#frame(kinds.windowUpdate, 0, 0, u32(windowBytesMax - initialWindowBytes));
  }

  #frame(kind: number, flag: number, stream: number, body: Uint8Array): void {
    const head = Buffer.allocUnsafe(frameHeadBytes);
    head.writeUIntBE(body.length, 0, 3);
    head[3] = kind;
    head[4] = flag;
    head.writeUInt32BE(stream, 5);
    this.#append(head);
    this.#append(body);
  }

  /** All calls of one event loop turn are sent in one write. */
  #append(bytes: Uint8Array): void {
    if (this.#used + bytes.length > this.#out.length) this.#flush();
    this.#out.set(bytes, this.#used);
    this.#used += bytes.length;
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => {
      this.#isFlushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#used > 0 && this.isOpen) this.#socket.write(Buffer.copyBytesFrom(this.#out, 0, this.#used));
    this.#used = 0;
  }

  #onChunk(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= frameHeadBytes) {
      const end = at + frameHeadBytes + bytes.readUIntBE(at, 3);
      if (bytes.length < end) break;
      const stream = bytes.readUInt32BE(at + 5) & windowBytesMax;
      this.#onFrame(bytes[at + 3]!, bytes[at + 4]!, stream, bytes.subarray(at + frameHeadBytes, end));
      at = end;
    }
    this.#rest = bytes.subarray(at);
  }

  #onFrame(kind: number, flag: number, stream: number, body: Buffer): void {
    if (kind === kinds.data) this.#acknowledge(body.length);
    else if (kind === kinds.headers && (flag & flags.endStream) !== 0) this.#onTrailers(stream, body);
    else if (kind === kinds.reset) this.#complete(stream, new Error('etcd has reset the call'));
    else if (kind === kinds.settings && (flag & flags.ack) === 0)
      this.#frame(kinds.settings, flags.ack, 0, Buffer.alloc(0));
    else if (kind === kinds.ping && (flag & flags.ack) === 0) this.#frame(kinds.ping, flags.ack, 0, body);
    else if (kind === kinds.windowUpdate && stream === 0) this.#sendWindowBytes += body.readUInt32BE(0);
    else if (kind === kinds.goAway) this.close();
  }

  #acknowledge(bytes: number): void {
    this.#unacknowledgedBytes += bytes;
    if (this.#unacknowledgedBytes < 2 ** 30) return;
    this.#frame(kinds.windowUpdate, 0, 0, u32(this.#unacknowledgedBytes));
    this.#unacknowledgedBytes = 0;
  }

  #onTrailers(stream: number, trailers: Buffer): void {
    const isOk = trailers.includes(statusOk);
    this.#complete(stream, isOk ? undefined : new Error(`etcd refused a put: ${trailers.toString('latin1')}`));
  }

  #complete(stream: number, error: Error | undefined): void {
    const done = this.#open.get(stream);
    this.#open.delete(stream);
    done?.(error);
  }

  #onClose(): void {
    for (const stream of [...this.#open.keys()]) this.#complete(stream, new Error('the connection to etcd is closed'));
  }
}

/** Literal headers that the server adds to its table; the last one gets index 62. */
function firstHeaders(authority: string): Buffer {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value, 'latin1')]);
  return Buffer.concat([
    ...[Buffer.from([0x83, 0x86, 0x44]), text(path), Buffer.from([0x41]), text(authority)],
    ...[Buffer.from([0x5f]), text('application/grpc'), Buffer.from([0x40]), text('te'), text('trailers')],
  ]);
}

/** POST, http, and the indices of the four literal headers. */
const laterHeaders = Buffer.from([0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe]);

/** One uncompressed gRPC message: its length, then field 1 (key) and field 2 (value), each shorter than 128 bytes. */
function putRequest(key: Uint8Array, value: Uint8Array): Buffer {
  const body = Buffer.allocUnsafe(5 + 2 + key.length + 2 + value.length);
  body[0] = 0;
  body.writeUInt32BE(body.length - 5, 1);
  body[5] = 0x0a;
  body[6] = key.length;
  body.set(key, 7);
  body[7 + key.length] = 0x12;
  body[8 + key.length] = value.length;
  body.set(value, 9 + key.length);
  return body;
}

function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
