/** Wire form of one member: identity and address, and the manager that vouches for it if it has no datagrams. */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import { field, optional, record } from './codec/compound.ts';
import type { FieldType } from './codec/field-type.ts';
import { roles, u16, u32 } from './codec/numbers.ts';
import { name, nodeId, text } from './codec/strings.ts';

/** An authenticated identity is a valid entry; the optional fields are unknown then. */
export type NodeEntry = Identity & { readonly watchedBy?: NodeId | undefined };

export const nodeEntry: FieldType<NodeEntry> = record('nodeEntry', {
  id: field(1, nodeId, 'Node id: generated once and kept in the data directory.'),
  name: field(2, name, 'Node name.'),
  host: field(3, text(255), 'Host name or IP address.'),
  port: field(4, u16, 'Port for UDP and TCP.'),
  generation: field(5, u32, 'Generation: grows with each start of the node.'),
  roles: field(6, roles, 'Roles of the node.'),
  dc: field(7, name, 'Datacenter.'),
  watchedBy: field(
    8,
    optional(nodeId),
    'For a member without datagrams: the manager that receives its heartbeats in this incarnation.',
  ),
});
