/**
 * Prometheus text of given numbers. Measures nothing. No client library (decision 18): it would keep every number a
 * second time.
 */
import { rttBucketsMs } from '../../membership/state/membership-counters.ts';
import type { NodeStatus } from '../core/node-status.ts';

export type MetricSources = {
  readonly status: NodeStatus;
  readonly cluster: string;
  readonly lastEventSeq: number;
  /** Growing counters by part of the node (`core`, `transport`). */
  readonly counters: Readonly<Record<string, Readonly<Record<string, number>>>>;
};

type Sample = { readonly labels?: Readonly<Record<string, string>>; readonly value: number };

export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8';

const prefix = 'remuster_';
const roundTripPrefix = 'roundTrip.';
const states = ['alive', 'probe-failed', 'suspect', 'dead', 'left'] as const;

export function metricsText({ status, cluster, lastEventSeq, counters }: MetricSources): string {
  const { id, name, dc, generation, members } = status;
  const info = { id, name, dc, cluster, roles: status.roles.join(',') };
  const byState = states.map((state) => ({
    labels: { state },
    value: members.filter((member) => member.state === state).length,
  }));
  return [
    family('node_info', 'gauge', 'Identity of this node.', [{ labels: info, value: 1 }]),
    family('node_generation', 'gauge', 'Number of starts of this node.', [{ value: generation }]),
    family('uptime_seconds', 'gauge', 'Time since the start.', [{ value: status.uptimeMs / 1_000 }]),
    family('joined', 'gauge', 'Whether this node has joined its cluster.', [{ value: status.joined ? 1 : 0 }]),
    family('members', 'gauge', 'Members in the view of this node, itself included.', byState),
    family('health_score', 'gauge', 'Local health of this node: 0 is healthy, 8 is very slow.', [
      { value: status.health },
    ]),
    family('main_loop_lag_seconds', 'gauge', 'Recent delay of the main loop.', [{ value: status.lagMs / 1_000 }]),
    family('stuck', 'gauge', 'Whether the main loop is blocked.', [{ value: status.stuck ? 1 : 0 }]),
    family('last_event_seq', 'gauge', 'Number of the latest event.', [{ value: lastEventSeq }]),
    family(
      'waiting',
      'gauge',
      'Open or waiting items of this node, by queue.',
      Object.entries(status.queues).map(([queue, value]) => ({ labels: { queue }, value })),
    ),
    rejectedFamily(counters),
    roundTripFamily(counters['membership'] ?? {}),
    ...Object.entries(counters).flatMap(([part, values]) => counterFamilies(part, values)),
  ].join('');
}

function rejectedFamily(counters: MetricSources['counters']): string {
  const samples = Object.entries(counters).flatMap(([part, values]) =>
    Object.entries(values)
      .filter(([counter]) => counter.startsWith('rejected.'))
      .map(([counter, value]) => ({ labels: { part, reason: counter.slice('rejected.'.length) }, value })),
  );
  return family('rejected_total', 'counter', 'Rejected input from outside, by reason.', samples);
}

/** Each bucket counts all values up to its bound, as Prometheus requires. */
function roundTripFamily(counters: Readonly<Record<string, number>>): string {
  const name = 'membership_round_trip_seconds';
  let count = 0;
  const buckets = [...rttBucketsMs, Infinity].map((boundMs, place) => {
    count += counters[`${roundTripPrefix}${place}`] ?? 0;
    const le = boundMs === Infinity ? '+Inf' : String(boundMs / 1_000);
    return `${prefix}${name}_bucket{le="${le}"} ${count}\n`;
  });
  const sum = (counters[`${roundTripPrefix}sumUs`] ?? 0) / 1_000_000;
  const head = `# HELP ${prefix}${name} Round trips of acknowledged probes.\n# TYPE ${prefix}${name} histogram\n`;
  return `${head}${buckets.join('')}${prefix}${name}_sum ${sum}\n${prefix}${name}_count ${count}\n`;
}

function counterFamilies(part: string, values: Readonly<Record<string, number>>): string[] {
  return Object.entries(values)
    .filter(([counter]) => !counter.startsWith('rejected.') && !counter.startsWith(roundTripPrefix))
    .map(([counter, value]) => {
      const name = `${part}.${counter}`.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2').replaceAll(/[^a-zA-Z\d]+/g, '_');
      return family(`${name.toLowerCase()}_total`, 'counter', `Counter ${counter} of the ${part}.`, [{ value }]);
    });
}

function family(name: string, type: 'gauge' | 'counter', help: string, samples: readonly Sample[]): string {
  const lines = samples.map(({ labels = {}, value }) => `${prefix}${name}${labelText(labels)} ${value}\n`);
  return `# HELP ${prefix}${name} ${help}\n# TYPE ${prefix}${name} ${type}\n${lines.join('')}`;
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`);
}
