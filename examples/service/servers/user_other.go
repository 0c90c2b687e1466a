//go:build !unix

package servers

import "syscall"

// unprivileged returns no attributes: the program starts as any other.
func unprivileged(string) (*syscall.SysProcAttr, error) { return nil, nil }
