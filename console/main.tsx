/**
 * The web console: nodes, jobs and events. It requests only the node that serves it, renders everything as text, and
 * changes nothing.
 */
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type ClusterEvent, type ConsoleJob, type ConsoleMember, followEvents, fetchJson } from './api.ts';
import { Jobs } from './jobs.tsx';

const pollMs = 1_000;
const eventsMax = 200;

type Status = {
  readonly cluster: string;
  readonly ready: boolean;
  readonly dcs: readonly { readonly dc: string; readonly leader: string | null; readonly term: number | null }[];
};

type ClusterState = {
  readonly members: readonly ConsoleMember[];
  readonly status: Status | undefined;
  readonly jobs: readonly ConsoleJob[];
  readonly error: string | undefined;
};

const emptyClusterState: ClusterState = { members: [], status: undefined, jobs: [], error: undefined };

function useCluster(): ClusterState {
  const [state, setState] = useState(emptyClusterState);
  useEffect(() => {
    let isUnmounted = false;
    const poll = async (): Promise<void> => {
      try {
        const [members, status, jobs] = await Promise.all([
          fetchJson<{ items: readonly ConsoleMember[] }>('/v1/members'),
          fetchJson<Status>('/v1/status'),
          fetchJson<{ items: readonly ConsoleJob[] }>('/v1/jobs').catch(() => ({ items: [] })),
        ]);
        setState({ members: members.items, status, jobs: newestFirst(jobs.items), error: undefined });
      } catch (error) {
        setState((before) => ({ ...before, error: error instanceof Error ? error.message : String(error) }));
      }
      if (!isUnmounted) setTimeout(() => void poll(), pollMs);
    };
    void poll();
    return () => {
      isUnmounted = true;
    };
  }, []);
  return state;
}

function newestFirst(jobs: readonly ConsoleJob[]): readonly ConsoleJob[] {
  return jobs.toSorted((a, b) => b.submittedAtMs - a.submittedAtMs);
}

function useEvents(): readonly ClusterEvent[] {
  const [events, setEvents] = useState<readonly ClusterEvent[]>([]);
  useEffect(() => {
    const closed = new AbortController();
    void followEvents('/v1/events', closed.signal, (data) => {
      setEvents((before) => [data as ClusterEvent, ...before].slice(0, eventsMax));
    });
    return () => closed.abort();
  }, []);
  return events;
}

function Console() {
  const { members, status, jobs, error } = useCluster();
  return (
    <>
      <header>
        <h1>Remuster</h1>
        <span>{status?.cluster}</span>
        {status?.dcs.map(({ dc, leader, term }) => (
          <span class="quiet" key={dc}>
            {dc}: {leader === null ? 'no leader' : `leader ${leader}, term ${term}`}
          </span>
        ))}
        {error === undefined ? null : <span class="notice">{error}</span>}
      </header>
      <Nodes members={members} leaders={(status?.dcs ?? []).map(({ leader }) => leader)} />
      <Jobs jobs={jobs} />
      <Events events={useEvents()} />
    </>
  );
}

function Nodes({
  members,
  leaders,
}: {
  readonly members: readonly ConsoleMember[];
  readonly leaders: readonly unknown[];
}) {
  const inOrder = members.toSorted((a, b) => `${a.dc} ${a.name}`.localeCompare(`${b.dc} ${b.name}`));
  return (
    <section id="nodes">
      <h2>Nodes</h2>
      <div class="nodes">
        {inOrder.map(({ id, name, state, stuck, roles, dc, registration, cores }) => (
          <div
            class={`node ${stuck && state === 'alive' ? 'stuck' : state}`}
            key={id}
            data-node={name}
            data-state={state}
          >
            <b>{name}</b>
            <span class="quiet">
              {dc} · {roles.join(', ')}
              {leaders.includes(name) ? ' · leader' : ''}
            </span>
            <br />
            {stuck && state === 'alive' ? 'stuck' : state}
            {registration === null || registration === 'active' ? '' : ` · ${registration}`}
            {cores ? ` · ${cores.total - cores.free} of ${cores.total} cores busy` : ''}
          </div>
        ))}
      </div>
    </section>
  );
}

function Events({ events }: { readonly events: readonly ClusterEvent[] }) {
  return (
    <section id="events">
      <h2>Events</h2>
      <ol class="events">
        {events.map((event) => (
          <li key={event.seq}>
            <time>{event.time.slice(11, 23)}</time>
            {event.type} {detailsOf(event)}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The fields that fit on a line; `remuster events` prints all. */
function detailsOf(event: ClusterEvent): string {
  const shown = ['member', 'leader', 'job', 'jobId', 'workflow', 'status', 'worker', 'outcome', 'why', 'reason'];
  return shown.flatMap((name) => (event[name] === undefined ? [] : [`${name} ${text(event[name])}`])).join(', ');
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const root = document.querySelector('#console');
if (root !== null) render(<Console />, root);
