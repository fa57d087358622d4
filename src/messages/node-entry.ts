/** Wire form of one member: identity and address, and the manager that vouches for it if it has no datagrams. */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import { field, optional, record } from './codec/compound.ts';
import type { FieldType } from './codec/field-type.ts';
import { roles, u16, u32 } from './codec/numbers.ts';
import { name, nodeId, text } from './codec/strings.ts';

/** Whoever proved an identity has an entry; what is absent from it is not said of it. */
export type NodeEntry = Identity & { readonly watchedBy?: NodeId | undefined };

export const nodeEntry: FieldType<NodeEntry> = record('nodeEntry', {
  id: field(1, nodeId, 'Made once, kept in the data directory.'),
  name: field(2, name, 'Chosen by people.'),
  host: field(3, text(255), 'Where it can be reached: a host name or an address.'),
  port: field(4, u16, 'One number for UDP and TCP.'),
  generation: field(5, u32, 'Grows with each start of the node.'),
  roles: field(6, roles, 'What it does in the cluster.'),
  dc: field(7, name, 'Its datacenter.'),
  watchedBy: field(8, optional(nodeId), 'It has no datagrams: who hears its heartbeats in this incarnation.'),
});
