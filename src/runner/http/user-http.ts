/** `ctx.http` of one user: its words, and who is told of its requests. The connections are those of all users. */
import type { HttpClient, HttpOptions, HttpRecorder, HttpRequestOptions, HttpResponse } from '../http-port.ts';
import type { LoadClient } from './client.ts';

export class UserHttp implements HttpClient {
  readonly #client: LoadClient;
  readonly #recorder: HttpRecorder;

  constructor(client: LoadClient, recorder: HttpRecorder) {
    this.#client = client;
    this.#recorder = recorder;
  }

  get(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, 'GET', url, options);
  }

  head(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, 'HEAD', url, options);
  }

  post(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, 'POST', url, options);
  }

  put(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, 'PUT', url, options);
  }

  patch(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, 'PATCH', url, options);
  }

  delete(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, 'DELETE', url, options);
  }

  request(url: string, options?: HttpRequestOptions): Promise<HttpResponse> {
    return this.#client.begin(this.#recorder, options?.method ?? 'GET', url, options);
  }
}
