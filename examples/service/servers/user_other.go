//go:build !unix

package servers

import "syscall"

// unprivileged returns how to start a program: as any other.
func unprivileged(string) (*syscall.SysProcAttr, error) { return nil, nil }
