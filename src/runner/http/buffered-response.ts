/** A received response: keeps the raw bytes, and decodes headers, text and JSON on demand. */
import { RemusterError } from '../../base/errors.ts';
import type { HttpHeaders, HttpResponse } from '../definition/http-types.ts';

const decoder = new TextDecoder();
const isNotAscii = /[^\0-\x7f]/;

export class BufferedResponse implements HttpResponse {
  readonly status: number;
  readonly durationMs: number;
  readonly #text: string;
  readonly #bodyAt: number;
  #bytes: Uint8Array | undefined;
  #headers: HttpHeaders | undefined;

  /** `text` is the head and, unless there are `bytes`, the body from `bodyAt` on; one character per byte. */
  constructor(status: number, durationMs: number, text: string, bodyAt: number, bytes: Uint8Array | undefined) {
    this.status = status;
    this.durationMs = durationMs;
    this.#text = text;
    this.#bodyAt = bodyAt;
    this.#bytes = bytes;
  }

  get headers(): HttpHeaders {
    this.#headers ??= new BufferedHeaders(this.#text.slice(0, this.#bodyAt));
    return this.#headers;
  }

  get bytes(): Uint8Array {
    this.#bytes ??= bytesOf(this.#text, this.#bodyAt);
    return this.#bytes;
  }

  text(): string {
    if (this.#bytes !== undefined) return decoder.decode(this.#bytes);
    const body = this.#text.slice(this.#bodyAt);
    return isNotAscii.test(body) ? decoder.decode(this.bytes) : body;
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  json<T = unknown>(): T {
    try {
      return JSON.parse(this.text()) as T;
    } catch {
      throw new RemusterError('BAD_ARGUMENT', `the body of the response with status ${this.status} is not JSON`);
    }
  }
}

class BufferedHeaders implements HttpHeaders {
  readonly #entries: readonly (readonly [string, string])[];

  constructor(head: string) {
    const lines = head.split('\n').slice(1);
    this.#entries = lines.flatMap((line) => {
      const colon = line.indexOf(':');
      return colon < 0 ? [] : [[line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const];
    });
  }

  get(name: string): string | undefined {
    const wanted = name.toLowerCase();
    const values = this.#entries.filter(([key]) => key === wanted).map(([, value]) => value);
    return values.length === 0 ? undefined : values.join(', ');
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  entries(): readonly (readonly [name: string, value: string])[] {
    return this.#entries;
  }
}

function bytesOf(text: string, from: number): Uint8Array {
  const bytes = new Uint8Array(text.length - from);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(from + i);
  return bytes;
}
