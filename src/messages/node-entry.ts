/** What members tell each other about a member: who it is and where it can be reached. */
import { field, record } from './compound.ts';
import type { ValueOf } from './kind.ts';
import { roles, u16, u32 } from './numbers.ts';
import { name, nodeId, text } from './strings.ts';

export const nodeEntry = record('nodeEntry', {
  id: field(1, nodeId, 'Made once, kept in the data directory.'),
  name: field(2, name, 'Chosen by people.'),
  host: field(3, text(255), 'Where it can be reached: a host name or an address.'),
  port: field(4, u16, 'One number for UDP and TCP.'),
  generation: field(5, u32, 'Grows with each start of the node.'),
  roles: field(6, roles, 'What it does in the cluster.'),
  dc: field(7, name, 'Its datacenter.'),
});

export type NodeEntry = ValueOf<typeof nodeEntry>;
