/** The module that `import ... from 'remuster'` resolves to in a runner. Functions that need a node throw FORBIDDEN. */
import { RemusterError } from '../../base/errors.ts';

export { RemusterError, isRemusterError } from '../../base/errors.ts';
export { workflow } from '../definition/workflow.ts';

/** URL of this module. */
export const packageStubUrl = import.meta.url;

function unavailable(name: string): never {
  throw new RemusterError('FORBIDDEN', `${name} is not available in a workflow; call it from a client or node program`);
}

export const connect = (): never => unavailable('connect');
export const startNode = (): never => unavailable('startNode');
export const nodeOptions = (): never => unavailable('nodeOptions');
/** A workflow never gets the failure of a job. */
export const isJobFailure = (): boolean => false;
/** A file may define modules beside workflows; a runner needs only their names. */
export const module = (name: string, spec: object): object => ({ ...spec, name });
export const kv: object = Object.freeze({ name: 'kv', methods: Object.freeze({}) });
