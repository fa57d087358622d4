/**
 * Types of `ctx.http`, and of the recorder that gets one record per request. No implementation: http/ and test doubles
 * have them.
 */
import type { Clock } from '../../base/ports.ts';

export type RequestMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

export type HttpOptions = {
  /** Sent unchanged, beside those of the client. Headers that frame the request are refused. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, with its content type. */
  readonly json?: unknown;
  /** Instead of `json`; text is sent as UTF-8. */
  readonly body?: string | Uint8Array;
  /** From the call to the last byte of the response, redirects included; then DEADLINE. 30 s if left out. */
  readonly timeoutMs?: number;
  /** Redirects to follow, 10 if left out; beyond that the redirect itself is the response. */
  readonly redirectsMax?: number;
  /** https: accepts any certificate, such as the self-signed one of a test server. */
  readonly anyCertificate?: boolean;
};

export type HttpRequestOptions = HttpOptions & { readonly method?: RequestMethod };

export type HttpHeaders = {
  /** Case-insensitive; the values of a repeated header are joined with `, `. */
  get(name: string): string | undefined;
  has(name: string): boolean;
  /** In the order of the response, names in lower case. */
  entries(): readonly (readonly [name: string, value: string])[];
};

/** A complete response, of any status. Only a request without a response is an error. */
export type HttpResponse = {
  readonly status: number;
  readonly headers: HttpHeaders;
  readonly bytes: Uint8Array;
  readonly durationMs: number;
  /** The body as UTF-8. */
  text(): string;
  /** Throws BAD_ARGUMENT if the body is not JSON. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  json<T = unknown>(): T;
};

/**
 * Each request ends with a response or one of these errors: BAD_ARGUMENT (invalid request), UNREACHABLE,
 * CONNECTION_LOST, DEADLINE, MALFORMED or TOO_LARGE (the response), CAPACITY (too many at once), FORBIDDEN (no
 * network), CANCELLED (the run has ended).
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

/** One ended request, including its redirects. */
export type HttpRequestRecord = {
  readonly durationUs: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** There is a response, and its status is below 400. */
  readonly ok: boolean;
};

export type HttpRecorder = { recordRequest(record: HttpRequestRecord): void };

/** The connections of a run, shared by all its users. */
export type HttpConnections = {
  /** `ctx.http` of one user; each of its requests is recorded. */
  clientFor(recorder: HttpRecorder): HttpClient;
  /** Ends pending requests with CANCELLED, without a record. */
  close(): void;
};

/** Called with the first request of a run. */
export type OpenHttp = (ports: { readonly clock: Clock }) => HttpConnections;
