/** `ctx.http` of one user: the methods, and the recorder of its requests. The connections are those of all users. */
import type {
  HttpClient,
  HttpOptions,
  HttpRecorder,
  HttpRequestOptions,
  HttpResponse,
} from '../definition/http-types.ts';
import type { LoadHttpClient } from './load-http-client.ts';

export class UserHttpClient implements HttpClient {
  readonly #client: LoadHttpClient;
  readonly #recorder: HttpRecorder;

  constructor(client: LoadHttpClient, recorder: HttpRecorder) {
    this.#client = client;
    this.#recorder = recorder;
  }

  get(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, 'GET', url, options);
  }

  head(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, 'HEAD', url, options);
  }

  post(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, 'POST', url, options);
  }

  put(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, 'PUT', url, options);
  }

  patch(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, 'PATCH', url, options);
  }

  delete(url: string, options?: HttpOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, 'DELETE', url, options);
  }

  request(url: string, options?: HttpRequestOptions): Promise<HttpResponse> {
    return this.#client.send(this.#recorder, options?.method ?? 'GET', url, options);
  }
}
