/**
 * The formats that this version writes, and the only ones that it reads. A change of a record on disk or of a message
 * raises the number; data or a peer with another one is refused with INCOMPATIBLE_VERSION. Before 1.0 no older format is
 * read.
 */

/** Everything in a data directory: store, logs, files. */
export const dataFormat = 2;

/** Every message between nodes and clients. */
export const wireFormat = 2;
