package ctl

import "syscall"

// withParent makes the kernel kill the command when lockctl is killed.
func withParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
