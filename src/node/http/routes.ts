/** All HTTP routes of a node as data. The server does access control and encoding. */
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { listReply, objectReply } from './replies.ts';
import { adminRoutes } from './admin-routes.ts';
import type { Chaos } from '../membership/chaos.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { requireMember } from '../membership/member-rows.ts';
import { memberRoutes } from './member-routes.ts';
import { moduleRoutes } from './module-routes.ts';
import { metricsContentType, metricsText } from './metrics.ts';
import { type NodeOptions, type OptionOrigin, optionNames, formatOption } from '../options/options.ts';
import type { OptionName } from '../options/options-table.ts';
import { callRoutes } from './call-routes.ts';
import { jobRoutes } from './job-routes.ts';
import { type LoadConsoleFile, consoleRoutes } from './console-routes.ts';
import { poolRoutes } from './pool-routes.ts';
import { registryRoutes } from './registry-routes.ts';
import { statusRoutes } from './status-routes.ts';
import { poolTransferRoutes } from './pool-transfer-routes.ts';

export type HttpRouteSources = {
  readonly core: NodeCore;
  readonly options: NodeOptions;
  /** The origin of each option, if known. */
  readonly origins: Readonly<Record<OptionName, OptionOrigin>> | undefined;
  readonly transportCounters: () => Readonly<Record<string, number>>;
  /** Undefined if the console is switched off. */
  readonly console?: LoadConsoleFile | undefined;
  /** Only on nodes that were started with the option `chaos`. */
  readonly chaos: Chaos | undefined;
};

type Check = { readonly name: string; readonly ok: boolean; readonly detail: string };

export function httpRoutes(sources: HttpRouteSources): readonly ApiRoute[] {
  const { core, options, chaos } = sources;
  return [
    get('/livez', (request) => healthReply(request, [alive(core)])),
    get('/startupz', (request) => healthReply(request, [alive(core)])),
    get('/readyz', (request) => healthReply(request, [alive(core), ...readiness(core)])),
    get('/metrics', () => ({ status: 200, text: metricsOf(sources), contentType: metricsContentType })),
    ...memberRoutes(core),
    get('/v1/node', () => objectReply(nodeStatusOf(sources))),
    ...statusRoutes(core, options.cluster),
    ...adminRoutes(core),
    ...poolRoutes(core),
    ...moduleRoutes(core),
    ...poolTransferRoutes(() => core.containers),
    ...callRoutes(() => {
      if (!core.acceptsCalls()) throw new RemusterError('DRAINED', 'this node is stopping', 'no');
      return core.containers?.calls;
    }),
    ...jobRoutes(() => core.jobs?.gateway, core.clock),
    ...registryRoutes(core, options.cluster),
    get('/v1/config', () => listReply(optionNames.map((name) => configRow(name, sources)))),
    get('/v1/events', (request) => eventsReply(core, request)),
    ...(sources.console === undefined ? [] : consoleRoutes(sources.console)),
    ...(chaos === undefined ? [] : devRoutes(core, chaos)),
  ];
}

function get(path: string, reply: (request: ApiRequest) => ApiResponse): ApiRoute {
  return { method: 'GET', path, handler: async (request) => reply(request) };
}

function post(path: string, reply: (request: ApiRequest) => ApiResponse): ApiRoute {
  return { method: 'POST', path, handler: async (request) => reply(request) };
}

function healthReply({ query }: ApiRequest, checks: readonly Check[]): ApiResponse {
  const ok = checks.every((check) => check.ok);
  const details = query['verbose'] === undefined ? {} : { checks };
  return objectReply({ ok, ...details }, ok ? 200 : 503);
}

function alive(core: NodeCore): Check {
  return core.halted() ? { name: 'loop', ok: false, detail: 'halted' } : { name: 'loop', ok: true, detail: 'running' };
}

function readiness(core: NodeCore): Check[] {
  const { joined, stopping } = core.status();
  return [
    {
      name: 'joined',
      ok: joined,
      detail: joined ? 'a seed has replied, or none was given' : 'no seed has replied yet',
    },
    { name: 'serving', ok: !stopping, detail: stopping ? 'the node is stopping' : 'the node accepts requests' },
  ];
}

function nodeStatusOf({ core, transportCounters }: HttpRouteSources): object {
  const status = core.status();
  const rejected: Record<string, number> = { ...status.rejected };
  for (const [name, value] of Object.entries(transportCounters())) {
    const reason = name.startsWith('rejected.') ? name.slice('rejected.'.length) : undefined;
    if (reason !== undefined) rejected[reason] = (rejected[reason] ?? 0) + value;
  }
  return { ...status, rejected };
}

function metricsOf({ core, options, transportCounters }: HttpRouteSources): string {
  return metricsText({
    status: core.status(),
    cluster: options.cluster,
    lastEventSeq: core.events.lastSeq,
    counters: { ...core.counters(), transport: transportCounters() },
  });
}

/** Formatted as an operator would type it; of a secret only that it is set. */
function configRow(name: OptionName, { options, origins }: HttpRouteSources): object {
  return { name, value: formatOption(name, options), source: origins?.[name].detail ?? null };
}

/** Follows by default; `?follow=false` returns the retained events. Resumes after `?since=` or Last-Event-ID. */
function eventsReply({ events }: NodeCore, { query, lastEventId }: ApiRequest): ApiResponse {
  const since = sequenceOf(lastEventId ?? query['since'] ?? '0');
  if (query['follow'] === 'false') return listReply(events.since(since));
  events.assertFollowerCapacity();
  return {
    sse: (send) => {
      for (const event of events.since(since)) if (!send({ id: String(event.seq), data: event })) return () => {};
      const stop = events.follow((event) => {
        if (!send({ id: String(event.seq), data: event })) stop();
      });
      return stop;
    },
  };
}

function sequenceOf(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new RemusterError('BAD_ARGUMENT', 'since must be a whole number');
  return Number(text);
}

function devRoutes(core: NodeCore, chaos: Chaos): readonly ApiRoute[] {
  return [
    post('/v1/dev/partition', (request) => partition(core, chaos, request)),
    post('/v1/dev/block', (request) => block(chaos, request)),
  ];
}

/** `{"cut": ["<id or name>", ...]}`: cuts off exactly these nodes; an empty list heals all links. */
function partition(core: NodeCore, chaos: Chaos, { body }: ApiRequest): ApiResponse {
  const { cut } = (body ?? {}) as { readonly cut?: unknown };
  if (!Array.isArray(cut) || !cut.every((idOrName) => typeof idOrName === 'string')) {
    throw new RemusterError('BAD_ARGUMENT', 'the body must be {"cut": ["<id or name>", ...]}');
  }
  const members = core.members();
  chaos.partitionFrom(cut.map((idOrName) => requireMember(idOrName, members)));
  return objectReply({ cut: chaos.cut });
}

const blockMsMax = 120_000;

/** `{"ms": 5000}`: blocks the main loop of this node, then replies. */
function block(chaos: Chaos, { body }: ApiRequest): ApiResponse {
  const { ms } = (body ?? {}) as { readonly ms?: unknown };
  if (typeof ms !== 'number' || !(ms > 0 && ms <= blockMsMax)) {
    throw new RemusterError('BAD_ARGUMENT', `the body must be {"ms": 1 to ${blockMsMax}}`);
  }
  chaos.blockLoop(ms);
  return objectReply({ blockedMs: ms });
}
