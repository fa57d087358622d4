/**
 * Types of the operator HTTP API: routes as data, declared by node/ and served by io/. Knows no socket, header or
 * authentication.
 */

export type ApiMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

export type ApiRequest = {
  /** Values of the `:name` segments of the path, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The last value of a repeated name; '' for a name without a value. */
  readonly query: Readonly<Record<string, string>>;
  /** Parsed JSON, or undefined without a body. Untrusted: its shape is not validated yet. */
  readonly body: unknown;
  /** The last event that a reconnecting client received (header Last-Event-ID). */
  readonly lastEventId: string | undefined;
};

export type ServerSentEvent = { readonly data: unknown; readonly id?: string; readonly event?: string };

/** Sends one event. False: the client disconnected, stop sending. */
export type SendServerSentEvent = (event: ServerSentEvent) => boolean;

export type ApiResponse =
  | { readonly status: number; readonly json: unknown }
  | { readonly status: number; readonly text: string; readonly contentType: string }
  /** Written no faster than the client reads; the iteration is closed when the client disconnects. */
  | { readonly status: number; readonly contentType: string; readonly chunks: AsyncIterable<string> }
  /** Called once the stream is open; `end` closes it. The returned function is called once when the client disconnects. */
  | { readonly sse: (send: SendServerSentEvent, end: () => void) => () => void };

export type ApiRoute = {
  readonly method: ApiMethod;
  /** Literal segments and `:name` segments, for example `/v1/nodes/:name/drain`. A literal wins over a name. */
  readonly path: string;
  /** A rejection with a coded error becomes its HTTP status and JSON; any other rejection becomes INTERNAL. */
  readonly handler: (request: ApiRequest) => Promise<ApiResponse>;
};
