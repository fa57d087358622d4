/** `ctx.http` of one user: the shared client, and a note when an answer says that something is wrong. */
import type { HttpClient, HttpOptions, HttpRequestOptions, HttpResponse } from './http-port.ts';

const statusBad = 400;

export class LaneHttp implements HttpClient {
  readonly #client: () => HttpClient;
  readonly #bad: () => void;

  /** `bad` is called for answers from 400 on. */
  constructor(client: () => HttpClient, bad: () => void) {
    this.#client = client;
    this.#bad = bad;
  }

  get(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().get(url, options));
  }

  head(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().head(url, options));
  }

  post(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().post(url, options));
  }

  put(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().put(url, options));
  }

  patch(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().patch(url, options));
  }

  delete(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().delete(url, options));
  }

  request(url: string, options?: HttpRequestOptions): Promise<HttpResponse> {
    return this.#seen(this.#client().request(url, options));
  }

  async #seen(answer: Promise<HttpResponse>): Promise<HttpResponse> {
    const response = await answer;
    if (response.status >= statusBad) this.#bad();
    return response;
  }
}
