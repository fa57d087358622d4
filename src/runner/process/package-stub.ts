/** What `import ... from 'remuster'` resolves to in a runner. What needs a node throws FORBIDDEN. */
import { RemusterError } from '../../base/errors.ts';

export { RemusterError, isRemusterError } from '../../base/errors.ts';
export { workflow } from '../definition/workflow.ts';

/** Where this is. */
export const packageStubUrl = import.meta.url;

function unavailable(name: string): never {
  throw new RemusterError(
    'FORBIDDEN',
    `${name} does not work in a workflow; only the code of nodes and clients has it`,
  );
}

export const connect = (): never => unavailable('connect');
export const startNode = (): never => unavailable('startNode');
export const nodeOptions = (): never => unavailable('nodeOptions');
/** Jobs are no concern of the code that runs in one: it never gets such an error. */
export const isJobFailure = (): boolean => false;
/** A file may hold modules beside workflows: here they are only names. */
export const module = (name: string, spec: object): object => ({ ...spec, name });
export const kv: object = Object.freeze({ name: 'kv', methods: Object.freeze({}) });
