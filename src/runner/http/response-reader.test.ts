import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { ResponseReader } from './response-reader.ts';
import { latin1 } from './node-sockets.ts';

const limits = { headBytesMax: 1_000, bodyBytesMax: 1_000 };

type Read = {
  readonly status: number;
  readonly body: string;
  readonly isKeptAlive: boolean;
  /** Bytes after the response. */
  readonly rest: number;
};

/** Reads a response in pieces, then closes the connection. */
function read(text: string, pieceBytes = text.length, isHead = false): Read | 'unfinished' {
  const reader = new ResponseReader(limits, latin1);
  const bytes = Buffer.from(text, 'latin1');
  // A reader is reused: an unfinished response must not affect the next one.
  reader.reset(false);
  reader.read(Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc'), 0, 41);
  reader.reset(isHead);
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    const to = Math.min(bytes.length, from + pieceBytes);
    const end = reader.read(bytes, from, to);
    if (end >= 0) return seen(reader, bytes.length - end);
  }
  return reader.closed() ? seen(reader, 0) : 'unfinished';
}

function seen(reader: ResponseReader, rest: number): Read {
  const { status, text, bodyAt, bytes, isKeptAlive } = reader;
  const body = bytes === undefined ? text.slice(bodyAt) : Buffer.from(bytes).toString('latin1');
  return { status, body, isKeptAlive, rest };
}

const ok = 'HTTP/1.1 200 OK\r\n';
const kept = (body: string, status = 200): Read => ({ status, body, isKeptAlive: true, rest: 0 });
const ended = (body: string, status = 200): Read => ({ ...kept(body, status), isKeptAlive: false });

const good: Readonly<Record<string, readonly [string, Read]>> = {
  'a length': [`${ok}Content-Length: 5\r\n\r\nhello`, kept('hello')],
  'a length of nothing': [`${ok}content-length:0\r\n\r\n`, kept('')],
  'a repeated length': [`${ok}content-length: 2\r\nContent-Length:\t2 \r\n\r\nhi`, kept('hi')],
  'bytes above ASCII': [`${ok}content-length: 3\r\n\r\n\x80\xff\0`, kept('\x80\xff\0')],
  'no reason phrase': ['HTTP/1.1 404\r\ncontent-length: 1\r\n\r\nx', kept('x', 404)],
  'bare line feeds': ['HTTP/1.1 200 OK\ncontent-length: 2\n\nhi', kept('hi')],
  chunks: [`${ok}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n`, kept('abc0123456789')],
  'chunks with extensions and trailers': [
    `${ok}Transfer-Encoding: Chunked\r\n\r\n3;name="v;v"\r\nabc\r\n2 \r\nde\r\n0;last\r\nx-sum: 1\r\ny: 2\r\n\r\n`,
    kept('abcde'),
  ],
  'the last chunk only': [`${ok}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`, kept('')],
  'chunks and a length': [
    `${ok}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
    ended('ab'),
  ],
  'until the connection ends': [`${ok}server: x\r\n\r\nall of this`, ended('all of this')],
  'nothing until the connection ends': [`${ok}\r\n`, ended('')],
  'no content': ['HTTP/1.1 204 No Content\r\n\r\n', kept('', 204)],
  'not modified, with the length of a body that is not sent': [
    'HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\n\r\n',
    kept('', 304),
  ],
  'early hints before the response': [
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${ok}content-length: 2\r\n\r\nhi`,
    kept('hi'),
  ],
  'connection: close': [`${ok}Connection: foo, Close\r\ncontent-length: 2\r\n\r\nhi`, ended('hi')],
  'connection: close and keep-alive': [
    `${ok}connection: close\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi`,
    ended('hi'),
  ],
  'HTTP/1.0': ['HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi', ended('hi')],
  'HTTP/1.0 with keep-alive': ['HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nhi', kept('hi')],
  'names that start like relevant ones': [
    `${ok}content-lengths: 9\r\nconnections: close\r\ntransfer-encodings: gzip\r\nx: \r\ncontent-length: 1\r\n\r\nx`,
    kept('x'),
  ],
};

describe('a response is found', () => {
  for (const [what, [text, expected]] of Object.entries(good)) {
    it(`${what}, whole and in pieces of any size`, () => {
      for (let pieceBytes = 1; pieceBytes <= text.length; pieceBytes++) {
        assert.deepEqual(read(text, pieceBytes), expected, `pieces of ${pieceBytes}`);
      }
    });
  }

  it('without a body after HEAD, whatever its head says', () => {
    assert.deepEqual(read(`${ok}content-length: 5\r\n\r\n`, 7, true), kept(''));
    assert.deepEqual(read(`${ok}transfer-encoding: chunked\r\n\r\n`, 7, true), kept(''));
  });

  it('without the bytes that follow it', () => {
    assert.deepEqual(read(`${ok}content-length: 2\r\n\r\nhi there`), { ...kept('hi'), rest: 6 });
    assert.deepEqual(read(`${ok}transfer-encoding: chunked\r\n\r\n0\r\n\r\nmore`), { ...kept(''), rest: 4 });
  });

  it('only when its end has arrived', () => {
    for (const [text] of Object.values(good)) {
      for (let length = 0; length < text.length; length++) {
        const part = read(text.slice(0, length));
        // Without a length the end of the connection is the end of the response.
        assert.ok(part === 'unfinished' || !part.isKeptAlive, text.slice(0, length));
      }
    }
  });
});

const bad: Readonly<Record<string, string>> = {
  'another protocol': 'SSH-2.0-OpenSSH_9.2\r\n',
  'HTTP/2': 'HTTP/2 200\r\n\r\n',
  'a status of two digits': 'HTTP/1.1 20 OK\r\n\r\n',
  'a status of four digits': 'HTTP/1.1 2000 OK\r\n\r\n',
  'a status below 100': 'HTTP/1.1 099 OK\r\n\r\n',
  'switching protocols': 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n',
  'a header without a colon': `${ok}nonsense\r\n\r\n`,
  'a header without a name': `${ok}: x\r\n\r\n`,
  'a blank before the colon': `${ok}content-length : 5\r\n\r\nhello`,
  'a folded header': `${ok}x: 1\r\n 2\r\n\r\n`,
  'a lone carriage return in a header': `${ok}x: 1\rcontent-length: 3\r\n\r\nabc`,
  'a zero byte in a header': `${ok}x: \0\r\n\r\n`,
  'two lengths': `${ok}content-length: 1\r\ncontent-length: 2\r\n\r\nab`,
  'an empty length': `${ok}content-length: \r\n\r\n`,
  'a negative length': `${ok}content-length: -1\r\n\r\n`,
  'a hexadecimal length': `${ok}content-length: 0x5\r\n\r\nhello`,
  'a length of 20 digits': `${ok}content-length: 10000000000000000000\r\n\r\n`,
  'an unknown coding': `${ok}transfer-encoding: gzip\r\n\r\n`,
  'chunks in chunks': `${ok}transfer-encoding: chunked, chunked\r\n\r\n`,
  'a chunk without a size': `${ok}transfer-encoding: chunked\r\n\r\n\r\n`,
  'a chunk size that is not a number': `${ok}transfer-encoding: chunked\r\n\r\nxyz\r\n`,
  'a chunk of a negative size': `${ok}transfer-encoding: chunked\r\n\r\n-1\r\n`,
  'a size of nine digits': `${ok}transfer-encoding: chunked\r\n\r\n000000001\r\na\r\n0\r\n\r\n`,
  'a chunk longer than its size': `${ok}transfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n`,
};

const large: Readonly<Record<string, string>> = {
  'a head': `${ok}x: ${'y'.repeat(limits.headBytesMax)}\r\n\r\n`,
  'a head without end': `${ok}x: ${'y'.repeat(limits.headBytesMax)}`,
  'a length': `${ok}content-length: ${limits.bodyBytesMax + 1}\r\n\r\n`,
  'chunks in sum': `${ok}transfer-encoding: chunked\r\n\r\n${`64\r\n${'x'.repeat(100)}\r\n`.repeat(11)}`,
  'one chunk': `${ok}transfer-encoding: chunked\r\n\r\n7fffffff\r\n`,
  'an extension': `${ok}transfer-encoding: chunked\r\n\r\n1;${'x'.repeat(limits.headBytesMax)}`,
  trailers: `${ok}transfer-encoding: chunked\r\n\r\n0\r\n${'a: b\r\n'.repeat(200)}`,
  'a body until the end': `${ok}\r\n${'x'.repeat(limits.bodyBytesMax + 1)}`,
};

describe('a response is refused', () => {
  for (const [what, text] of Object.entries(bad)) {
    it(`as malformed: ${what}`, () => {
      for (const pieceBytes of [1, 3, text.length]) {
        assert.throws(
          () => read(text, pieceBytes),
          (error) => isRemusterError(error, 'MALFORMED'),
          `${pieceBytes}`,
        );
      }
    });
  }
  for (const [what, text] of Object.entries(large)) {
    it(`as too large: ${what}`, () => {
      for (const pieceBytes of [1, 100, text.length]) {
        assert.throws(
          () => read(text, pieceBytes),
          (error) => isRemusterError(error, 'TOO_LARGE'),
          `${pieceBytes}`,
        );
      }
    });
  }
  it('but not at the bounds', () => {
    const body = 'x'.repeat(limits.bodyBytesMax);
    assert.deepEqual(read(`${ok}content-length: ${body.length}\r\n\r\n${body}`), kept(body));
  });
});
