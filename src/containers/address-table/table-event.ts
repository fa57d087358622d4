/** What the address table has to tell people: its disk, its agreement with the registry. */
import type { ErrorCode } from '../../base/errors.ts';

export type AddressTableEvent =
  /** It is the whole truth of the registry for the first time in this life. */
  | { readonly kind: 'table.confirmed'; readonly version: number; readonly containers: number }
  /** STORE_CORRUPT: what was stored is not used, and built again from the registry. */
  | { readonly kind: 'table.damaged'; readonly file: string; readonly code: ErrorCode; readonly reason: string }
  /** The disk does not take changes: the table stays as it was, and it is tried again. Told once until it works. */
  | { readonly kind: 'table.log-failing'; readonly code: ErrorCode; readonly reason: string }
  | { readonly kind: 'table.log-works' }
  /** Everything is read again. */
  | { readonly kind: 'table.repairing'; readonly reason: string };
