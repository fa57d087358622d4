/** Properties of the control plane: one group, durable writes, all nodes registered after healing. */
import type { PropertyChecker, Property } from '../../checking/workload.ts';

/** Managers form exactly one group, also if they crash or are partitioned while it forms. */
const oneGroupForms: Property = (): PropertyChecker => {
  let first: string | undefined;
  return {
    observe(event) {
      if (event.kind !== 'groupFormed') return undefined;
      if (first !== undefined && first !== event.node) return `${first} and ${event.node} both formed a group`;
      first = event.node;
      return undefined;
    },
    atEnd: () => (first === undefined ? 'no group ever formed' : undefined),
  };
};

/** The registry has every acknowledged write at the end. */
const writesAreDurable: Property = (): PropertyChecker => {
  const written = new Set<string>();
  let found: ReadonlySet<string> | undefined;
  return {
    observe(event) {
      if (event.kind === 'writeAcknowledged') written.add(event.key);
      if (event.kind === 'keysFound') found = new Set(event.keys);
      return undefined;
    },
    atEnd: () => {
      if (found === undefined) return 'the registry does not reply after the quiet phase';
      const lost = [...written].find((key) => found?.has(key) === false);
      return lost === undefined ? undefined : `${lost} was acknowledged and is gone`;
    },
  };
};

/** After healing every node is registered, active or drained, and knows the same leader. */
const allNodesRegistered: Property = (): PropertyChecker => {
  let problem: string | undefined = 'no registration was read';
  return {
    observe(event) {
      if (event.kind !== 'registrations') return undefined;
      const missing = event.nodes.find(({ status }) => status !== 'active' && status !== 'drained');
      const leaders = new Set(event.nodes.map(({ leader }) => leader));
      problem = undefined;
      if (missing !== undefined) problem = `${missing.node} is ${missing.status}`;
      else if (leaders.size !== 1) problem = `nodes disagree on the leader: ${[...leaders].join(' ')}`;
      return undefined;
    },
    atEnd: () => problem,
  };
};

export const controlPlaneProperties = {
  allNodesRegistered,
  oneGroupForms,
  writesAreDurable,
} as const satisfies Readonly<Record<string, Property>>;
