/**
 * Runs simulated members for 400 ms so that V8 compiles the membership code before real peers come. Never touches the
 * real machine.
 *
 * The real machine has no part in it, and nothing of it is reported.
 */
import { failure } from '../base/errors.ts';
import type { Clock, Datagrams, Identity, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import { type MembershipHostPorts, MembershipHost } from './membership-host.ts';
import type { MembershipListener } from './membership-handle.ts';
import type { MembershipOptions } from './state/options.ts';

export type WarmupMember = { readonly identity: Identity; readonly datagrams: Pick<Datagrams, 'send' | 'receive'> };

/** Long enough for a dozen rounds of everything. */
const durationMs = 400;
const probeIntervalMs = 40;
const gossipIntervalMs = 20;

/** Calls back with how many others each actor has seen, when all of it is over. */
export function warmUpMembership(
  { clock, random }: { readonly clock: Clock; readonly random: Random },
  actors: readonly WarmupMember[],
  options: MembershipOptions,
  done: (seenCounts: readonly number[]) => void,
): void {
  const hosts: MembershipHost[] = [];
  const hurried = { ...options, probeIntervalMs, gossipIntervalMs };
  for (const { identity, datagrams } of actors) {
    const ports: MembershipHostPorts = {
      ...{ clock, datagrams, random: random.fork(identity.name) },
      streams: localStreams(
        clock,
        identity,
        (port) => hosts[actors.findIndex((actor) => actor.identity.port === port)],
      ),
    };
    const seeds = actors.slice(0, 1).map((first) => first.identity);
    hosts.push(new MembershipHost(ports, { identity, seeds, options: hurried, watchMainLoop: false }, ignoredEvents));
  }
  for (const host of hosts) host.start({ incarnation: 0, known: [] });
  clock.schedule(durationMs, () => {
    const seenCounts = hosts.map((host) => host.members().length - 1);
    for (const host of hosts) host.stop();
    done(seenCounts);
  });
}

/** Questions by stream, without one. */
function localStreams(
  clock: Clock,
  self: Identity,
  at: (port: number) => MembershipHost | undefined,
): Pick<Streams, 'request' | 'watch'> {
  return {
    watch: () => {},
    request: (to, body, _timeoutMs, ended) =>
      clock.schedule(0, () => {
        const host = at(to.port);
        if (host === undefined) ended(failure('UNREACHABLE'));
        else host.handleRequest(self, body, ended);
      }),
  };
}

const ignoredEvents: MembershipListener = {
  event: () => {},
  joined: () => {},
  embedded: () => {},
  saveHints: () => {},
  onHalt: () => {},
};
