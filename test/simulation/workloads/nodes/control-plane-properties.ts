/**
 * Properties of the control plane: one group, durable writes, everyone registered after healing.
 */
import type { PropertyChecker, Property } from '../../checking/workload.ts';

/** However the managers start, die and are cut off: there is never a second group. */
const oneGroupForms: Property = (): PropertyChecker => {
  let first: string | undefined;
  return {
    observe(seen) {
      if (seen.kind !== 'groupBegan') return undefined;
      if (first !== undefined && first !== seen.node) return `${first} and ${seen.node} both began a group`;
      first = seen.node;
      return undefined;
    },
    atEnd: () => (first === undefined ? 'no group ever began' : undefined),
  };
};

const writesAreDurable: Property = (): PropertyChecker => {
  const written = new Set<string>();
  let found: ReadonlySet<string> | undefined;
  return {
    observe(seen) {
      if (seen.kind === 'wrote') written.add(seen.key);
      if (seen.kind === 'found') found = new Set(seen.keys);
      return undefined;
    },
    atEnd: () => {
      if (found === undefined) return 'the registry does not answer although all is well';
      const lost = [...written].find((key) => found?.has(key) === false);
      return lost === undefined ? undefined : `${lost} was acknowledged and is gone`;
    },
  };
};

/** After healing everybody is registered, in whichever mode, and knows the same leader. */
const allNodesRegistered: Property = (): PropertyChecker => {
  let problem: string | undefined = 'nobody was asked';
  return {
    observe(seen) {
      if (seen.kind !== 'registrations') return undefined;
      const missing = seen.standings.find(({ standing }) => standing !== 'active' && standing !== 'drained');
      const leaders = new Set(seen.standings.map(({ leader }) => leader));
      problem = undefined;
      if (missing !== undefined) problem = `${missing.node} is ${missing.standing}`;
      else if (leaders.size !== 1) problem = `leaders by belief: ${[...leaders].join(' ')}`;
      return undefined;
    },
    atEnd: () => problem,
  };
};

export const controlPlaneProperties = {
  everybodyIsRegistered: allNodesRegistered,
  oneGroupBegins: oneGroupForms,
  whatWasWrittenStays: writesAreDurable,
} as const satisfies Readonly<Record<string, Property>>;
