/** Runs membership in the calling thread, for the simulator and tests of the core. */
import type { Datagrams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import { MembershipHost } from '../../membership/membership-host.ts';
import type { MembershipStart } from './membership-start.ts';
import { membershipOptions } from '../options/membership-options.ts';
import type { NodeOptions } from '../options/options-table.ts';

export function inlineMembership(datagrams: Datagrams, random: Random, options: NodeOptions): MembershipStart {
  return ({ clock, streams, identity }, reports) => {
    const ports = { clock, datagrams: options.membership === 'swim' ? datagrams : undefined, streams, random };
    const settings = { identity, seeds: options.join, options: membershipOptions(options), watchMainLoop: false };
    return new MembershipHost(ports, settings, reports);
  };
}
