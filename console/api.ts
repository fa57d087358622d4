/**
 * Requests to the node that serves the console: JSON, and event streams that resume. The token is kept for this tab
 * only.
 */
export type ConsoleMember = {
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

export type ConsoleJob = {
  readonly jobId: string;
  readonly name: string;
  readonly status: string;
  readonly completed: number;
  readonly failed: number;
  readonly submittedAtMs: number;
};

export type ConsoleProgress = {
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

export type ConsoleFailures = {
  readonly failures?: readonly {
    readonly workflow: string;
    readonly count: number;
    readonly messages: readonly { readonly message: string; readonly at: string; readonly count: number }[];
  }[];
};

const tokenKey = 'remuster.token';
const retryDelayMs = 1_000;

function token(): string | null {
  const fromUrl = new URLSearchParams(location.hash.slice(1)).get('token');
  if (fromUrl !== null) {
    sessionStorage.setItem(tokenKey, fromUrl);
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem(tokenKey);
}

function headers(): Record<string, string> {
  const known = token();
  return known === null ? {} : { authorization: `Bearer ${known}` };
}

export async function fetchJson<T>(path: string): Promise<T> {
  const response = await fetch(path, { headers: headers() });
  const body = (await response.json()) as T & { error?: { message: string } };
  if (!response.ok) throw new Error(body.error?.message ?? `${path}: HTTP status ${response.status}`);
  return body;
}

/**
 * Calls `onEvent` for each event until `signal` aborts. Reconnects after a failure and resumes after the last event.
 */
export async function followEvents(path: string, signal: AbortSignal, onEvent: (data: unknown) => void): Promise<void> {
  let lastId: string | undefined;
  while (!signal.aborted) {
    try {
      const resumed: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId };
      const response = await fetch(path, { signal, headers: { ...headers(), ...resumed } });
      if (!response.ok || response.body === null) throw new Error(String(response.status));
      for await (const { id, data } of eventsIn(response.body)) {
        lastId = id ?? lastId;
        onEvent(JSON.parse(data));
      }
    } catch {
      // The node has ended or is busy: the next poll of the status shows the error.
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
