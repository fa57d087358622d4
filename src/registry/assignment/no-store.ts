/** The store of machines that remember nothing of their own, because the registry does: nothing is ever written to it. */
import { unreachable } from '../../base/assert.ts';
import type { Store } from '../../base/ports.ts';

export const noStore: Pick<Store, 'write'> = {
  write: (writes) => unreachable(writes as never),
};
