/**
 * Types of the operator HTTP API: routes as data, declared by node/ and served by io/. Knows no socket, header or
 * authentication.
 */

export type ApiMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

export type ApiRequest = {
  /** What the `:name` segments of the path matched, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The last value wins when a name is repeated; a name without a value is ''. */
  readonly query: Readonly<Record<string, string>>;
  /** Parsed JSON, or undefined when there was no body. Untrusted: its shape was not checked. */
  readonly body: unknown;
  /** Where a broken event stream wants to go on. */
  readonly lastEventId: string | undefined;
};

export type ServerSentEvent = { readonly data: unknown; readonly id?: string; readonly event?: string };

/** Gives one event to the client. False means that the client is gone: stop sending. */
export type SendServerSentEvent = (event: ServerSentEvent) => boolean;

export type ApiResponse =
  | { readonly status: number; readonly json: unknown }
  | { readonly status: number; readonly text: string; readonly contentType: string }
  /** Written as they come, no faster than the client reads; the iteration is ended when the client is gone. */
  | { readonly status: number; readonly contentType: string; readonly chunks: AsyncIterable<string> }
  /** Called once the stream is open; `end` closes it. The function it returns is called once when the client is gone. */
  | { readonly sse: (send: SendServerSentEvent, end: () => void) => () => void };

export type ApiRoute = {
  readonly method: ApiMethod;
  /** Literal segments and `:name` segments, for example `/v1/nodes/:name/drain`. A literal wins over a name. */
  readonly path: string;
  /** A rejection with a coded error becomes its HTTP status and shape; any other one becomes INTERNAL. */
  readonly handler: (request: ApiRequest) => Promise<ApiResponse>;
};
