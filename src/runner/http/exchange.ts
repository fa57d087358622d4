/** One request of a user from call to end: text, deadline, byte counts, promise callbacks. Data only. */
import type { HttpOptions, HttpRecorder, HttpResponse } from '../definition/http-types.ts';
import type { Method, RequestText } from './request-text.ts';
import type { RequestTarget } from './request-target.ts';

export class Exchange {
  readonly recorder: HttpRecorder;
  readonly resolve: (response: HttpResponse) => void;
  readonly reject: (error: unknown) => void;
  startedMs = 0;
  deadlineMs = 0;
  redirectsLeft = 0;
  /** The request under way; a redirect changes it. */
  method: Method;
  target: RequestTarget;
  options: HttpOptions | undefined;
  text = '';
  body: Uint8Array | undefined;
  closesConnection = false;
  /** Of all requests, redirects included. */
  bytesIn = 0;
  bytesOut = 0;

  constructor(
    method: Method,
    target: RequestTarget,
    options: HttpOptions | undefined,
    recorder: HttpRecorder,
    resolve: (response: HttpResponse) => void,
    reject: (error: unknown) => void,
  ) {
    this.method = method;
    this.target = target;
    this.options = options;
    this.recorder = recorder;
    this.resolve = resolve;
    this.reject = reject;
  }

  setRequest({ text, body, isLast }: RequestText): void {
    this.text = text;
    this.body = body;
    this.closesConnection = isLast;
  }
}
