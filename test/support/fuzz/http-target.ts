/** Fuzz target: HTTP responses of a hostile server, split at any byte. */
import { isRemusterError, type RemusterError } from '../../../src/base/errors.ts';
import { ResponseReader } from '../../../src/runner/http/response-reader.ts';
import { latin1 } from '../../../src/runner/http/node-sockets.ts';
import type { FuzzTarget } from './fuzzer.ts';

const limits = { headBytesMax: 2_048, bodyBytesMax: 4_096 };

const heads = [
  'HTTP/1.1 200 OK\r\nServer: x\r\nDate: Mon, 16 Nov 2026 03:13:04 GMT\r\nConnection: keep-alive\r\n',
  'HTTP/1.0 404 Not Found\r\nConnection: Keep-Alive\r\n',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nLocation: /x\r\nset-cookie: a=b\r\n',
  'HTTP/1.1 500\nx:y\n',
];
const bodies = [
  'Content-Length: 11\r\n\r\nhello world',
  'content-length: 0\r\n\r\n',
  'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n',
  'transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\ntrailer: yes\r\n\r\n',
  '\r\nuntil the connection ends',
  'connection: close\r\ncontent-length: 3\r\n\r\nabc',
];

const unfinished = 'unfinished';

/** The decoded response as one line. */
function read(input: Uint8Array, pieceBytes: number): string {
  const reader = new ResponseReader(limits, latin1);
  reader.reset(false);
  for (let from = 0; from < input.length; from += pieceBytes) {
    const end = reader.read(input, from, Math.min(input.length, from + pieceBytes));
    if (end < 0) continue;
    const { status, text, bodyAt, bytes, isKeptAlive } = reader;
    if (bytes !== undefined && bytes.length > limits.bodyBytesMax) throw new Error('the body exceeds its limit');
    const body = bytes === undefined ? text.slice(bodyAt) : latin1(bytes, 0, bytes.length);
    return JSON.stringify([status, body, isKeptAlive, end]);
  }
  return reader.closed() ? `ended by the close after ${reader.bytes?.length} bytes` : unfinished;
}

/** The decoded response or the refusal. Throws any other error, which is a bug. */
function outcomeOf(input: Uint8Array, pieceBytes: number): string | RemusterError {
  try {
    return read(input, pieceBytes);
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    return error;
  }
}

export const httpFuzzTarget: FuzzTarget = {
  name: 'http responses',
  headerBytes: 9,
  corpus: heads.flatMap((head) => bodies.map((body) => new Uint8Array(Buffer.from(head + body, 'latin1')))),
  reasonOf: (error) => (isRemusterError(error) ? `${error.code}: ${error.message}` : undefined),
  attempt: (input) => {
    const whole = outcomeOf(input, Math.max(1, input.length));
    const pieceBytes = 1 + ((input[input.length >> 1] ?? 0) % 40);
    const inPieces = outcomeOf(input, pieceBytes);
    // A head is checked when it is complete: an error in it may be found later when it comes in pieces.
    const isSame =
      typeof whole === 'string' ? whole === inPieces : inPieces === unfinished || typeof inPieces === 'object';
    if (!isSame) throw new Error(`in pieces of ${pieceBytes} it is ${String(inPieces)}, whole it is ${String(whole)}`);
    if (typeof whole === 'object') throw whole;
  },
};
