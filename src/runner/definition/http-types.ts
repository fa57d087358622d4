/**
 * Types of `ctx.http` and of the recorder that hears of each request once. No implementation: http/ has it, the
 * simulator another.
 */
import type { Clock } from '../../base/ports.ts';

export type RequestMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

export type HttpOptions = {
  /** Sent as they are, besides those of the client; where a request ends is not for them to say. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, with its content type. */
  readonly json?: unknown;
  /** Text is sent as UTF-8. Instead of `json`. */
  readonly body?: string | Uint8Array;
  /** From the call to the last byte of the answer, redirects included; DEADLINE beyond. By default 30 s. */
  readonly timeoutMs?: number;
  /** How many redirects are followed; by default 10, and 0 gives the redirect itself as the answer. */
  readonly redirectsMax?: number;
  /** https: the certificate of the server is not checked, as with servers for tests that signed their own. */
  readonly anyCertificate?: boolean;
};

export type HttpRequestOptions = HttpOptions & { readonly method?: RequestMethod };

export type HttpHeaders = {
  /** Of a name in any case; of several with the same name all, with `, ` between them. */
  get(name: string): string | undefined;
  has(name: string): boolean;
  /** In the order of the answer, names in small letters. */
  entries(): readonly (readonly [name: string, value: string])[];
};

/** A whole answer, of any status. Only what prevents an answer is an error. */
export type HttpResponse = {
  readonly status: number;
  readonly headers: HttpHeaders;
  readonly bytes: Uint8Array;
  readonly durationMs: number;
  /** As UTF-8. */
  text(): string;
  /** BAD_ARGUMENT if it is no JSON. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  json<T = unknown>(): T;
};

/**
 * Each request ends in an answer or in one of these errors: BAD_ARGUMENT (the request itself), UNREACHABLE,
 * CONNECTION_LOST, DEADLINE, MALFORMED and TOO_LARGE (the answer), CAPACITY (too many at once), FORBIDDEN (no network), CANCELLED (the run ended).
 */
export type HttpClient = {
  get(url: string, options?: HttpOptions): Promise<HttpResponse>;
  head(url: string, options?: HttpOptions): Promise<HttpResponse>;
  post(url: string, options?: HttpOptions): Promise<HttpResponse>;
  put(url: string, options?: HttpOptions): Promise<HttpResponse>;
  patch(url: string, options?: HttpOptions): Promise<HttpResponse>;
  delete(url: string, options?: HttpOptions): Promise<HttpResponse>;
  request(url: string, options?: HttpRequestOptions): Promise<HttpResponse>;
};

/** One request that is over, redirects and all. */
export type HttpRequestRecord = {
  readonly durationUs: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** An answer came, and its status is below 400. */
  readonly ok: boolean;
};

export type HttpRecorder = { httpEnded(ended: HttpRequestRecord): void };

/** What all users of a run share: connections. */
export type HttpConnections = {
  /** `ctx.http` of one user; each of its requests is told to its recorder. */
  clientFor(recorder: HttpRecorder): HttpClient;
  /** With the run: what is under way ends with CANCELLED, and is told to nobody but its callers. */
  close(): void;
};

/** Called for a run with the first request of its code. */
export type OpenHttp = (ports: { readonly clock: Clock }) => HttpConnections;
