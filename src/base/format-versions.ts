/**
 * The formats that this version writes, and the only ones that it reads. Before 1.0 nothing older is kept alive: whoever
 * changes a record on disk or a message raises the number, and data or a peer with another one is refused with
 * INCOMPATIBLE_VERSION.
 */

/** Everything in a data directory: store, logs, files. */
export const dataFormat = 2;

/** Every message between nodes and clients. */
export const wireFormat = 2;
