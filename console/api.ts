/**
 * Requests to the node that serves the console: JSON, and event streams that resume. Keeps the token for the tab only.
 */
export type MemberRow = {
  readonly name: string;
  readonly id: string;
  readonly roles: readonly string[];
  readonly dc: string;
  readonly state: string;
  readonly stuck: boolean;
  readonly registration: string | null;
  readonly cores?: { readonly total: number; readonly free: number } | null;
};

export type ClusterEvent = { readonly seq: number; readonly time: string; readonly type: string } & Readonly<
  Record<string, unknown>
>;

export type JobRow = {
  readonly jobId: string;
  readonly name: string;
  readonly status: string;
  readonly completed: number;
  readonly failed: number;
  readonly submittedAtMs: number;
};

export type JobProgressView = {
  readonly jobId: string;
  readonly status: string;
  readonly elapsedMs: number;
  readonly completed: number;
  readonly failed: number;
  readonly ratePerSecond: number;
  readonly latencyMs: { readonly p50: number; readonly p95: number; readonly p99: number } | null;
  readonly workers?: readonly string[];
  readonly incidents?: readonly { readonly time: string; readonly node: string; readonly effect: string }[];
};

export type FailuresView = {
  readonly failures?: readonly {
    readonly workflow: string;
    readonly count: number;
    readonly messages: readonly { readonly message: string; readonly at: string; readonly count: number }[];
  }[];
};

const tokenKey = 'remuster.token';
const retryDelayMs = 1_000;

function token(): string | null {
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given !== null) {
    sessionStorage.setItem(tokenKey, given);
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem(tokenKey);
}

function headers(): Record<string, string> {
  const own = token();
  return own === null ? {} : { authorization: `Bearer ${own}` };
}

export async function fetchJson<T>(path: string): Promise<T> {
  const response = await fetch(path, { headers: headers() });
  const body = (await response.json()) as T & { error?: { message: string } };
  if (!response.ok) throw new Error(body.error?.message ?? `${path}: ${response.status}`);
  return body;
}

/** Each event as it comes, for ever, until `signal`: a broken line is taken up where it ended. */
export async function followEvents(path: string, signal: AbortSignal, heard: (data: unknown) => void): Promise<void> {
  let last: string | undefined;
  while (!signal.aborted) {
    try {
      const resumed: Record<string, string> = last === undefined ? {} : { 'last-event-id': last };
      const response = await fetch(path, { signal, headers: { ...headers(), ...resumed } });
      if (!response.ok || response.body === null) throw new Error(String(response.status));
      for await (const { id, data } of eventsIn(response.body)) {
        last = id ?? last;
        heard(JSON.parse(data));
      }
    } catch {
      // The node is gone or busy; the next look says so to people.
    }
    await new Promise((resolve) => setTimeout(resolve, retryDelayMs));
  }
}

async function* eventsIn(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<{ readonly id: string | undefined; readonly data: string }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const lines = block.split('\n');
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
      const id = lines
        .find((line) => line.startsWith('id:'))
        ?.slice(3)
        .trim();
      if (data.length > 0) yield { id, data: data.join('\n') };
    }
  }
}
